# XOR by a network of two layers, with the same initial weights and the same losses as xor.cpp with heed.
import torch

x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
target = torch.tensor([[0.0], [1.0], [1.0], [0.0]])

w1 = torch.tensor([[0.9, -0.7, 0.4], [-0.8, 0.6, 0.5]])
b1 = torch.zeros(3)
w2 = torch.tensor([[0.8], [0.7], [-0.3]])
b2 = torch.zeros(1)
parameters = [w1, b1, w2, b2]
for parameter in parameters:
    parameter.requires_grad_(True)
optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)

for step in range(1, 101):
    y = torch.tanh(x @ w1 + b1) @ w2 + b2
    error = y - target
    loss = (error * error).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step:3}  loss {loss.item():.6f}")
a, b, c, d = y.flatten().tolist()
print(f"0 0 -> {a:.3f}  0 1 -> {b:.3f}  1 0 -> {c:.3f}  1 1 -> {d:.3f}")
