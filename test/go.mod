module github.com/berth-scheduler/berth/test

go 1.26.0

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	github.com/berth-scheduler/berth/cmd/berth v0.0.0
	github.com/berth-scheduler/berth/pkg v0.0.0
	github.com/berth-scheduler/berth/services/binder v0.0.0
	github.com/berth-scheduler/berth/services/descheduler v0.0.0
	github.com/berth-scheduler/berth/services/queue v0.0.0
	github.com/berth-scheduler/berth/services/scheduler v0.0.0
	github.com/google/go-cmp v0.7.0
	go.uber.org/goleak v1.3.0
	golang.org/x/sync v0.24.0
	k8s.io/api v0.36.3
	k8s.io/apimachinery v0.36.3
	k8s.io/client-go v0.36.3
	k8s.io/component-helpers v0.36.3
	sigs.k8s.io/yaml v1.6.0
)

replace github.com/berth-scheduler/berth/pkg => ../pkg

replace github.com/berth-scheduler/berth/services/queue => ../services/queue

replace github.com/berth-scheduler/berth/services/scheduler => ../services/scheduler

replace github.com/berth-scheduler/berth/services/binder => ../services/binder

replace github.com/berth-scheduler/berth/services/descheduler => ../services/descheduler

replace github.com/berth-scheduler/berth/cmd/berth => ../cmd/berth
