unode-3*E
O>oO\
,=N_shopcache-0 Ú
O>oO\
,=N_	Útext
