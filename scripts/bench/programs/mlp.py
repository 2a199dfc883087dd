import torch
from torch import nn
from torch.nn.functional import cross_entropy

from program_peer import training


def program(state, x, y):
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
    model.load_state_dict(state)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    return training(lambda x, y: cross_entropy(model(x), y), optimizer, 64, x, y)
