package state

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/state/intern"
	"github.com/berth-scheduler/berth/pkg/state/wire"
)

// status is the status of pods without addresses and without each pod's individual data: times and restart counts,
// which are zero. It is immutable, and unique for its content in this process.
type status struct {
	api   corev1.PodStatus
	lists []*resourceList // held, see shareRequirements
}

var statuses intern.Table[status]

// newStatus decodes the status and removes the pod's individual data from it again. That data must be the content
// of p, in the same order: only then can it be put back. The check at the end makes a mistake an error instead of a
// pod with the times of another.
func newStatus(p *wire.Parts) (*status, error) {
	s := &status{}
	if err := s.api.Unmarshal(p.Status); err != nil {
		return nil, err
	}
	times, counts := p.Changing.Times(), p.Changing.Counts()
	eachTime(&s.api, func(t *metav1.Time) {
		if len(times) > 0 && *t == times[0].Time() {
			*t, times = metav1.Time{}, times[1:]
		}
	})
	eachCount(&s.api, func(n *int32) {
		if len(counts) > 0 && *n == counts[0] {
			*n, counts = 0, counts[1:]
		}
	})
	places := 0
	eachTime(&s.api, func(*metav1.Time) { places++ })
	eachCount(&s.api, func(*int32) { places++ })
	if len(times)+len(counts) > 0 || places != len(p.Changing.Times())+len(p.Changing.Counts()) {
		return nil, fmt.Errorf("status: times or restart counts at unexpected positions: %+v", p.Changing)
	}
	eachContainer(&s.api, func(c *corev1.ContainerStatus) {
		s.lists = shareList(shareRequirements(s.lists, c.Resources), &c.AllocatedResources)
	})
	return s, nil
}

// eachTime visits the times of a status in the order of their protobuf fields.
func eachTime(s *corev1.PodStatus, visit func(*metav1.Time)) {
	for i := range s.Conditions {
		visit(&s.Conditions[i].LastProbeTime)
		visit(&s.Conditions[i].LastTransitionTime)
	}
	if s.StartTime != nil {
		visit(s.StartTime)
	}
	eachContainer(s, func(c *corev1.ContainerStatus) {
		eachTimeOf(&c.State, visit)
		eachTimeOf(&c.LastTerminationState, visit)
	})
}

// eachTimeOf visits the times of one state of a container.
func eachTimeOf(s *corev1.ContainerState, visit func(*metav1.Time)) {
	if s.Running != nil {
		visit(&s.Running.StartedAt)
	}
	if s.Terminated != nil {
		visit(&s.Terminated.StartedAt)
		visit(&s.Terminated.FinishedAt)
	}
}

// timesPerCondition is how many times eachTime visits for a condition; it visits conditions first.
const timesPerCondition = 2

// Started returns status.startTime, in whole seconds; false while the kubelet has not set it.
func (p *Pod) Started() (at time.Time, ok bool) {
	if p.form == nil || p.form.status.api.StartTime == nil {
		return time.Time{}, false
	}
	own := p.readOwn(true)
	return own.Changing.Times()[timesPerCondition*len(p.form.status.api.Conditions)].Time().Time, true
}

// eachCount visits the restart counts, in the order of their protobuf fields.
func eachCount(s *corev1.PodStatus, visit func(*int32)) {
	eachContainer(s, func(c *corev1.ContainerStatus) { visit(&c.RestartCount) })
}

// eachContainer visits the statuses of containers, in the order of their protobuf fields.
func eachContainer(s *corev1.PodStatus, visit func(*corev1.ContainerStatus)) {
	for _, list := range [][]corev1.ContainerStatus{
		s.ContainerStatuses, s.InitContainerStatuses, s.EphemeralContainerStatuses,
	} {
		for i := range list {
			visit(&list[i])
		}
	}
}

// with returns a copy of the status with the individual data put into it. Parts without such data are shared.
func (s *status) with(own *wire.Changing) corev1.PodStatus {
	c := s.api
	c.Conditions = slices.Clone(c.Conditions)
	if c.StartTime != nil {
		c.StartTime = &metav1.Time{}
	}
	c.ContainerStatuses = slices.Clone(c.ContainerStatuses)
	c.InitContainerStatuses = slices.Clone(c.InitContainerStatuses)
	c.EphemeralContainerStatuses = slices.Clone(c.EphemeralContainerStatuses)
	eachContainer(&c, func(c *corev1.ContainerStatus) {
		ownTimes(&c.State)
		ownTimes(&c.LastTerminationState)
	})
	times, counts := own.Times(), own.Counts()
	eachTime(&c, func(t *metav1.Time) { *t, times = times[0].Time(), times[1:] })
	eachCount(&c, func(n *int32) { *n, counts = counts[0], counts[1:] })
	return c
}

// ownTimes gives the state its own copies of the parts that contain times.
func ownTimes(s *corev1.ContainerState) {
	if s.Running != nil {
		running := *s.Running
		s.Running = &running
	}
	if s.Terminated != nil {
		terminated := *s.Terminated
		s.Terminated = &terminated
	}
}
