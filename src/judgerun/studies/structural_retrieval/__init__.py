"""The structural-retrieval study: its rules of gold and labels, its questions, its tables, and what its paper printed."""

from judgerun.model.study import Study

STUDY = Study(name="structural-retrieval", questions={})
