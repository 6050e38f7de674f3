package plugins_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
	"github.com/berth-scheduler/berth/services/scheduler/plugins"
)

// upstreams is like upstream's PodsToActivate.
type upstreams struct {
	sync.Mutex
	Map map[string]*corev1.Pod
}

func (u *upstreams) Clone() framework.StateData { return u }

// notUpstreams has a map of another type.
type notUpstreams struct {
	sync.Mutex
	Map map[string]string
}

func (u *notUpstreams) Clone() framework.StateData { return u }

func named(name string) map[string]*corev1.Pod {
	return map[string]*corev1.Pod{"": {ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "other"}}}
}

// next returns the names of the pods that plugins want activated at this point.
func (c *pluginSet) next() string {
	var names []string
	for _, ref := range <-c.made.Activated() {
		names = append(names, ref.Name)
	}
	return strings.Join(names, ", ")
}

// Pods that plugins activate are delivered to a shard: at once by the handle; by the cycle when it has succeeded,
// and again when the pod is bound.
func TestActivate(t *testing.T) {
	c := newPluginSet(t)
	defer c.stop()
	leave := func(point, pod string) {
		c.during[point] = func(state framework.CycleState) {
			data, err := state.Read(plugins.PodsToActivateKey)
			if err != nil {
				t.Error(err)
				return
			}
			data.(*upstreams).Map = named(pod)
		}
	}
	leave("Reserve B", "reserved")
	leave("PreFlight A", "flown")
	c.statuses["Permit B"] = framework.NewStatus(framework.Unschedulable, "no")
	if a := c.do(step.ActReserve); a.Refusal == nil {
		t.Fatal("permitted")
	}
	c.handle.Activate(klog.Logger{}, named("by hand"))
	if got := c.next(); got != "by hand" {
		t.Errorf("%q after a cycle that failed, want that of the handle", got)
	}
	delete(c.statuses, "Permit B")
	c.do(step.ActReserve)
	if got := c.next(); got != "reserved" {
		t.Errorf("%q after the cycle", got)
	}
	c.do(step.ActPrepare)
	c.do(step.ActBound)
	if got := c.next(); got != "flown" {
		t.Errorf("%q after the bind", got)
	}
}

func TestPodsToActivateOfAnotherType(t *testing.T) {
	_, err := plugins.NewPodsToActivate(func() framework.StateData { return &notUpstreams{} })
	want := "*plugins_test.notUpstreams: want upstream's *framework.PodsToActivate: " +
		"a lock with a field Map of type map[string]*v1.Pod"
	if err == nil || err.Error() != want {
		t.Error(cmp.Diff(want, err))
	}
}
