pdb-uidshop"web*
poddisruptionbudget2&
/O>oO\ùé
,=N_"00000000000000aa2text