import torch
from resnet import ResNet


def program(state, x):
    model = ResNet(1000).eval()
    model.load_state_dict(state, strict=False)  # but for the counts of batches
    return torch.no_grad()(lambda: model(x))
