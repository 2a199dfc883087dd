import torch
from torch.nn.functional import cross_entropy

from program_peer import training
from resnet import ResNet


def of_batch(batch):
    def program(state, x, y):
        model = ResNet(10)
        model.load_state_dict(state, strict=False)  # but for the counts of batches
        optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)
        return training(lambda x, y: cross_entropy(model(x), y), optimizer, batch, x, y)

    return program
