"""The lab's token levels as matplotlib draws them when one only calls it: default.py hook.jsonl default.png"""

import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

calls = [call for call in map(json.loads, open(sys.argv[1], encoding="utf-8")) if call["ev"] == "call"]
start = calls[0]["mono_ns"]
launches = [call for call in calls if "tokens" in call]
fig, (tokens, memory) = plt.subplots(2)
tokens.plot([(call["mono_ns"] - start) / 1e9 for call in launches], [call["tokens"] for call in launches])
for outcome in ("ok", "denied"):
    chosen = [call for call in launches if call["outcome"] == outcome]
    tokens.scatter([(call["mono_ns"] - start) / 1e9 for call in chosen], [call["tokens"] for call in chosen], label=outcome)
tokens.set_title("令牌数")
tokens.legend()
sized = [call for call in calls if "total" in call]
memory.plot([(call["mono_ns"] - start) / 1e9 for call in sized], [call["total"] for call in sized])
memory.set_title("显存")
fig.savefig(sys.argv[2])
