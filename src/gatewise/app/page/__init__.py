"""The page that explains a fitted model: what is computed (rows, importance, findings), drawn and written as HTML."""
