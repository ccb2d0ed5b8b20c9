def play(seed, place):
    raise NotImplementedError
