import torch
from torch import nn

from program_peer import training

WORDS, WIDTH, BATCH, NEGATIVE = 5000, 64, 512, 5


class Word2Vec(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.context = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)

    def forward(self, word, context):
        return (self.word(word)[:, None] * self.context(context)).sum(-1)


def program(state, word, context):
    model = Word2Vec()
    model.load_state_dict(state)
    optimizer = torch.optim.SGD(model.parameters(), 0.025)
    weights = (torch.arange(WORDS) + 1.0) ** -0.75

    def loss(word, context):
        drawn = torch.multinomial(weights, BATCH * NEGATIVE, replacement=True).view(BATCH, NEGATIVE)
        y = model(word, torch.cat((context[:, None], drawn), 1))
        return -(y[:, :1].sigmoid().log().sum() + (-y[:, 1:]).sigmoid().log().sum()) / BATCH
    return training(loss, optimizer, BATCH, word, context)
