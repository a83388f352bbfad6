"""The demo: a help desk whose users hold it to a house rule it was never told, walked through the real service.

rules.py     house rules, as a grader's configuration and as what users say when one is broken
scenario.py  what users ask: topics, lists, unrelated prompts
users.py     simulated users, talking through the stock client
service.py   the real service as a child process
run.py       the stages, and the report
"""

from ops.demo.run import run_demo

__all__ = ["run_demo"]
