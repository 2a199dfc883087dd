import torch
from torch import nn
from torch.nn.functional import cross_entropy

from program_peer import training

WORDS, WIDTH, LENGTH = 500, 128, 24


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        layer = {"dim_feedforward": 4 * WIDTH, "dropout": 0, "batch_first": True}
        self.source, self.target = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
        self.position = nn.Embedding(LENGTH, WIDTH)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 4, **layer), 2)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(WIDTH, 4, **layer), 2)
        self.head = nn.Linear(WIDTH, WORDS)
        self.mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)

    def forward(self, source, target):
        position = self.position(torch.arange(LENGTH))
        memory = self.encoder(self.source(source) + position)
        y = self.decoder(self.target(target) + position, memory, tgt_mask=self.mask, tgt_is_causal=True)
        return self.head(y)


def program(state, source, before, after):
    model = Translator()
    model.load_state_dict(state)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)

    def loss(source, before, after):
        return cross_entropy(model(source, before).flatten(0, 1), after.flatten())
    return training(loss, optimizer, 16, source, before, after)
