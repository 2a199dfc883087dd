import torch
from torch import nn

CARTS, STEPS, FADING = 32, 100, 0.99


def move(s, action):
    x, v, angle, turning = s.unbind(1)
    force = action * 20.0 - 10
    c, sine = angle.cos(), angle.sin()
    push = (force + 0.05 * turning.square() * sine) / 1.1
    bend = (9.8 * sine - c * push) / (0.5 * (4 / 3 - 0.1 * c.square() / 1.1))
    speed = push - 0.05 * bend * c / 1.1
    return torch.stack((x + 0.02 * v, v + 0.02 * speed, angle + 0.02 * turning, turning + 0.02 * bend), 1)


@torch.no_grad()
def play(policy):
    s, up = torch.rand(CARTS, 4) * 0.1 - 0.05, torch.ones(CARTS)
    states, actions, rewards = [], [], []
    for _ in range(STEPS):
        action = torch.distributions.Categorical(logits=policy(s)).sample()
        states.append(s)
        actions.append(action)
        rewards.append(up)
        s = move(s, action)
        fallen = (s[:, 0].abs() > 2.4) | (s[:, 2].abs() > 0.2095)
        up = up.masked_fill(fallen, 0)
    return torch.stack(states), torch.stack(actions), torch.stack(rewards)


def returns(rewards):
    total, out = torch.zeros(CARTS), []
    for reward in rewards.flip(0):
        total = reward + total * FADING
        out.append(total)
    return torch.stack(out[::-1])


def program(state):
    policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
    policy.load_state_dict(state)
    adam = torch.optim.Adam(policy.parameters(), 1e-5)

    def step():
        states, actions, rewards = play(policy)
        log_p = policy(states).log_softmax(-1).gather(-1, actions[..., None])[..., 0]
        loss = -(log_p * returns(rewards) * rewards).sum() / CARTS
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss.detach()
    return step
