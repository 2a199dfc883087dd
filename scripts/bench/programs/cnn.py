import torch
from torch import nn
from torch.nn.functional import cross_entropy

from program_peer import training


def program(state, x, y):
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10))
    model.load_state_dict(state)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    return training(lambda x, y: cross_entropy(model(x), y), optimizer, 32, x, y)
