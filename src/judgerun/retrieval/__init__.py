"""Texts and vectors in, rankings out: exact dense top-k, BM25, fusion, lexical score; knows no request and no file."""
