import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from program_peer import training


def twice(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.bottom = twice(3, 16), twice(16, 32), twice(32, 64)
        self.pool = nn.MaxPool2d(2)
        self.widen2, self.up2 = nn.ConvTranspose2d(64, 32, 2, 2), twice(64, 32)
        self.widen1, self.up1 = nn.ConvTranspose2d(32, 16, 2, 2), twice(32, 16)
        self.head = nn.Conv2d(16, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(self.pool(a))
        y = self.bottom(self.pool(b))
        y = self.up2(torch.cat((self.widen2(y), b), 1))
        y = self.up1(torch.cat((self.widen1(y), a), 1))
        return self.head(y)


def program(state, x, y):
    model = UNet()
    model.load_state_dict(state, strict=False)  # but for the counts of batches
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    return training(lambda x, y: binary_cross_entropy_with_logits(model(x), y), optimizer, 4, x, y)
