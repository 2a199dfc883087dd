import torch
from torch import nn
from torch.nn.functional import cross_entropy

from program_peer import training


class Model(nn.Module):
    def __init__(self, characters, width):
        super().__init__()
        self.embedding = nn.Embedding(characters, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True)
        self.head = nn.Linear(width, characters)

    def forward(self, ids):
        return self.head(self.lstm(self.embedding(ids))[0])


def program(state, x, y):
    model = Model(80, 128)
    model.load_state_dict(state)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    return training(lambda x, y: cross_entropy(model(x).flatten(0, 1), y.flatten()), optimizer, 16, x, y)
