import torch
from torch import nn
from torch.nn.functional import cross_entropy

from program_peer import training


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(32, 128, batch_first=True), nn.Linear(128, 10)

    def forward(self, x):
        _, last = self.gru(x)
        return self.head(last[0])


def program(state, x, y):
    model = Reader()
    model.load_state_dict(state)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    return training(lambda x, y: cross_entropy(model(x), y), optimizer, 32, x, y)
