".
cache
shop
appInab
tierExists"

teamNotInx(