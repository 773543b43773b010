"""through_pytorch.py MODEL.safetensors MODEL.onnx: loads LeNet-5's parameters by name into PyTorch, as
a stranger would, and exports it. Exit code 77 without PyTorch."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

try:
    import torch
    from torch import nn
except ImportError:
    sys.exit(77)

from onnx_writer import read_safetensors


class Lenet5(nn.Module):
    """For images of 8×8."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(128, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        for conv in (self.conv1, self.conv2):
            x = torch.max_pool2d(torch.relu(conv(x)), 2)
        x = torch.flatten(x, 1)
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


def main():
    tensors, _ = read_safetensors(sys.argv[1])
    model = Lenet5()
    model.load_state_dict({name: torch.frombuffer(bytearray(data), dtype=torch.float32).view(shape)
                           for name, (shape, data) in tensors.items()})
    torch.onnx.export(model.eval(), (torch.zeros(1, 1, 8, 8),), sys.argv[2])


if __name__ == "__main__":
    main()
