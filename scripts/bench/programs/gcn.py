import torch
from torch import nn
from torch.nn.functional import cross_entropy

from program_peer import training


class GCN(nn.Module):
    def __init__(self, words, classes):
        super().__init__()
        self.first, self.second = nn.Linear(words, 16), nn.Linear(16, classes)

    @staticmethod
    def gather(x, start, to, weight):
        return torch.zeros_like(x).index_add(0, to, x[start] * weight)

    def forward(self, x, start, to, weight):
        h = self.gather(self.first(x), start, to, weight).relu()
        return self.gather(self.second(h), start, to, weight)


def program(state, *data):
    model = GCN(512, 7)
    model.load_state_dict(state)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)

    def loss(x, start, to, weight, y):
        return cross_entropy(model(x, start, to, weight), y)
    return training(loss, optimizer, None, *data)
