module github.com/berth-scheduler/berth/services/descheduler

go 1.26.0

require github.com/berth-scheduler/berth/pkg v0.0.0

replace github.com/berth-scheduler/berth/pkg => ../../pkg
