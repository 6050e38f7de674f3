module github.com/berth-scheduler/berth/cmd/berth

go 1.26.0

require (
	github.com/berth-scheduler/berth/pkg v0.0.0
	github.com/berth-scheduler/berth/services/binder v0.0.0
	github.com/berth-scheduler/berth/services/descheduler v0.0.0
	github.com/berth-scheduler/berth/services/queue v0.0.0
	github.com/berth-scheduler/berth/services/scheduler v0.0.0
)

replace github.com/berth-scheduler/berth/pkg => ../../pkg

replace github.com/berth-scheduler/berth/services/queue => ../../services/queue

replace github.com/berth-scheduler/berth/services/scheduler => ../../services/scheduler

replace github.com/berth-scheduler/berth/services/binder => ../../services/binder

replace github.com/berth-scheduler/berth/services/descheduler => ../../services/descheduler
