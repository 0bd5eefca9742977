"""What a student writes: a pattern, a dictionary, line by line. Prints the number of denied calls."""
import re
import sys

CALL = re.compile(r"^\[HOOK\] (\w+)\(.*?\) (?:-> (\S+)|(DENIED))")
calls, denied = {}, {}
with open(sys.argv[1], encoding="utf-8", errors="replace") as log:
    for line in log:
        match = CALL.match(line)
        if match:
            api = match.group(1)
            calls[api] = calls.get(api, 0) + 1
            if match.group(3):
                denied[api] = denied.get(api, 0) + 1
print(sum(denied.values()))
