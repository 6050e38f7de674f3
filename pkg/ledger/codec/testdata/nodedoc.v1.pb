$4d1c0a52-6f2c-4d0e-a7f7-2b9a3c1e0d5fnode-17"
persistentvolumeclaim*"
pod±ÑùÖ*Æ
O>oO\
,=N_shopweb-6c9f7d-x2x4k (0	8°ÑùÖAï¾şÊÎúíşJscheduler-0-x7k2pRdefault-schedulerZ
cpuúZ
example.com/gpuZ
memory€€€€`úh€€€€r
0.0.0.0TCP?x‚gang-uidŠplan-1*# Šplan-1’static-pod-of-node-17