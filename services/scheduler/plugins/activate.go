package plugins

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/events"
)

// PodsToActivateKey is the key in a cycle's state under which plugins leave pods to be tried once the cycle has
// succeeded, or the pod is bound. Source: PodsToActivateKey in pkg/scheduler/framework/interface.go.
const PodsToActivateKey framework.StateKey = "kubernetes.io/pods-to-activate"

// PodsToActivate creates and reads the value under PodsToActivateKey. Its type is not in
// k8s.io/kube-scheduler/framework, but in k8s.io/kubernetes, which only programs that need it should depend on; so
// it is read by reflection.
type PodsToActivate struct {
	create func() framework.StateData
}

// NewPodsToActivate takes upstream's framework.NewPodsToActivate. The error explains what the result of the function
// lacks.
func NewPodsToActivate(create func() framework.StateData) (*PodsToActivate, error) {
	p := &PodsToActivate{create: create}
	if _, _, ok := p.read(create()); !ok {
		return nil, fmt.Errorf("%T: want upstream's *framework.PodsToActivate: "+
			"a lock with a field Map of type map[string]*v1.Pod", create())
	}
	return p, nil
}

// read returns the lock and the map of the value in a cycle. The map must be read and set with the lock held.
func (p *PodsToActivate) read(data framework.StateData) (sync.Locker, reflect.Value, bool) {
	lock, locks := data.(sync.Locker)
	v := reflect.ValueOf(data)
	if !locks || v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return nil, reflect.Value{}, false
	}
	field := v.Elem().FieldByName("Map")
	return lock, field, field.IsValid() && field.CanSet() && field.Type() == reflect.TypeFor[map[string]*corev1.Pod]()
}

// activateFrom activates the pods that plugins have left in a cycle, and clears them. Source: prepareForBindingCycle
// and bindingCycle in pkg/scheduler/schedule_one.go, which do not lock.
func (r *Runtime) activateFrom(c *cycle) {
	if r.toActivate == nil {
		return
	}
	data, err := c.Read(PodsToActivateKey)
	if err != nil {
		return
	}
	lock, field, ok := r.toActivate.read(data)
	if !ok {
		return
	}
	// Upstream reads without the lock, but a plugin may still write from a goroutine of its own.
	lock.Lock()
	pods := field.Interface().(map[string]*corev1.Pod)
	field.Set(reflect.ValueOf(map[string]*corev1.Pod{}))
	lock.Unlock()
	r.activations.add(pods)
}

// maxActivations bounds the pods that wait for a shard to receive them: in a process without shards none does.
const maxActivations = 1 << 16

// activations are the pods that plugins want tried, to be received by a shard of the process. Which shard it is does
// not matter: it passes the names on to the queue, which knows all pods. Safe for concurrent use.
type activations struct {
	logger *slog.Logger
	// some holds a value when pods is not empty; shards receive from out.
	some chan struct{}
	out  chan []events.PodRef
	mu   struct {
		sync.Mutex
		pods map[events.PodRef]struct{}
	}
}

// newActivations returns no activations.
func newActivations(logger *slog.Logger) *activations {
	a := &activations{logger: logger, some: make(chan struct{}, 1), out: make(chan []events.PodRef)}
	a.mu.pods = map[events.PodRef]struct{}{}
	return a
}

// add notes pods that plugins want tried, each once until it has been delivered. It never blocks: plugins call it
// under locks of their own.
func (a *activations) add(pods map[string]*corev1.Pod) {
	if len(pods) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, pod := range pods {
		if len(a.mu.pods) >= maxActivations {
			a.logger.Warn("too many pod activations from plugins; some dropped", "kept", maxActivations)
			break
		}
		a.mu.pods[events.PodRef{Namespace: pod.Namespace, Name: pod.Name}] = struct{}{}
	}
	select {
	case a.some <- struct{}{}:
	default:
	}
}

// take removes and returns all pods.
func (a *activations) take() []events.PodRef {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]events.PodRef, 0, len(a.mu.pods))
	for ref := range a.mu.pods {
		list = append(list, ref)
	}
	clear(a.mu.pods)
	return list
}

// run delivers pods until ctx ends. Pods that are noted while no shard receives are delivered together.
func (a *activations) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.some:
		}
		select {
		case <-ctx.Done():
			return nil
		case a.out <- a.take():
		}
	}
}

// Activated delivers the pods that plugins want tried, in no order, each to one receiver.
func (r *Runtime) Activated() <-chan []events.PodRef { return r.activations.out }
