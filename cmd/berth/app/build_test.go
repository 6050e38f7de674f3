package app

import (
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

// kept is like upstream's framework.PodsToActivate; notKept is not.
type kept struct {
	sync.Mutex
	Map map[string]*corev1.Pod
}

func (k *kept) Clone() framework.StateData { return k }

type notKept struct{}

func (n notKept) Clone() framework.StateData { return n }

func TestWithPodsToActivate(t *testing.T) {
	defer func() { podsToActivate = nil }()
	if err := apply([]Option{WithPodsToActivate(func() notKept { return notKept{} })}); err == nil ||
		!strings.HasPrefix(err.Error(), "pods to activate: app.notKept: want") || podsToActivate != nil {
		t.Errorf("%v, want that the type is another", err)
	}
	if err := apply([]Option{WithPodsToActivate[*kept](nil)}); err == nil {
		t.Error("want an error about nothing")
	}
	if err := apply([]Option{WithPodsToActivate(func() *kept { return &kept{} })}); err != nil || podsToActivate == nil {
		t.Errorf("%v, want it taken", err)
	}
}
