import torch

THINGS, STEPS, DT = 64, 50, 0.1
F64 = torch.float64
MOVE = torch.tensor([[1, 0, DT, 0], [0, 1, 0, DT], [0, 0, 1, 0], [0, 0, 0, 1]], dtype=F64)
SEE = torch.tensor([[1, 0, 0, 0], [0, 1, 0, 0]], dtype=F64)
DRIFT, NOISE = torch.eye(4, dtype=F64) * 0.01, torch.eye(2, dtype=F64) * 0.25


def program(state, places):
    @torch.no_grad()
    def run():
        state = torch.zeros(THINGS, 4, 1, dtype=F64)
        spread = torch.eye(4, dtype=F64).expand(THINGS, 4, 4)
        states = []
        for place in places:
            state = MOVE @ state
            spread = MOVE @ spread @ MOVE.T + DRIFT

            surprise = place[..., None] - SEE @ state
            seen = spread @ SEE.T
            gain = torch.linalg.solve(SEE @ seen + NOISE, seen.mT).mT
            state = state + gain @ surprise
            spread = spread - gain @ seen.mT
            states.append(state[..., 0])
        return torch.stack(states)
    return run
