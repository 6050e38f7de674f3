package plugins

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/telemetry"
)

// hints are the events that the plugins of a profile have registered, by plugin. It implements placement.Hints, and
// is immutable: the leading queue calls it for every change of the cluster and every pod that a plugin has rejected.
type hints struct {
	logger *slog.Logger
	klog   klog.Logger
	of     map[string][]hint
}

// hint is one event that a plugin has registered. With a nil ask every such change requeues the pod. ask is the
// plugin's QueueingHintFn: it decides from the pod and the changed object whether the pod might fit now.
type hint struct {
	event rule.Event
	ask   framework.QueueingHintFn
}

// Hints returns the events that plugins have registered for (upstream's EnqueueExtensions), by the scheduler name of
// their profile. A plugin listens to everything if it has no EventsToRegister, or if it registers for everything or
// for something that is not reported here. The error names the profile and the plugin.
func (r *Runtime) Hints(ctx context.Context) (map[string]placement.Hints, error) {
	all := map[string]placement.Hints{}
	for _, name := range slices.Sorted(maps.Keys(r.sets)) {
		s := r.sets[name]
		h := &hints{logger: s.logger, klog: klog.FromContext(ctx), of: map[string][]hint{}}
		for _, plugin := range slices.Sorted(maps.Keys(s.made)) {
			if err := h.register(ctx, plugin, s.made[plugin]); err != nil {
				return nil, fmt.Errorf("profile %s: plugin %s: EventsToRegister: %w", name, plugin, err)
			}
		}
		all[name] = h
	}
	return all, nil
}

// register notes the events of one plugin. If one of them is not supported, nothing is noted, so that any change
// requeues the pods that the plugin rejects: too many retries are harmless, a missed event is not.
func (h *hints) register(ctx context.Context, name string, p framework.Plugin) error {
	extension, ok := p.(framework.EnqueueExtensions)
	if !ok {
		return nil
	}
	registered, err := extension.EventsToRegister(ctx)
	if err != nil {
		return err
	}
	list := []hint{} // not nil: the plugin has registered for nothing
	for _, e := range registered {
		event, known := eventOf(e.Event)
		if !known {
			h.logger.Info("plugin registers for unsupported events: any change requeues the pods that it rejects",
				"plugin", name, "resource", e.Event.Resource)
			return nil
		}
		list = append(list, hint{event: event, ask: e.QueueingHintFn})
	}
	if len(list) == 0 {
		h.logger.Warn("plugin registers for no events: nothing requeues the pods that it rejects", "plugin", name)
	}
	h.of[name] = list
	return nil
}

// Events implements placement.Hints: the events that a plugin has registered for; false if it listens to everything.
func (h *hints) Events(plugin string) (list []rule.Event, registeredAny bool) {
	registered, registeredAny := h.of[plugin]
	for _, one := range registered {
		list = append(list, one.event)
	}
	return list, registeredAny
}

// Helps implements placement.Hints. A hint that fails counts as a yes. Source: isPodWorthRequeuing in
// pkg/scheduler/backend/queue/scheduling_queue.go.
func (h *hints) Helps(plugin string, pod *state.Pod, c rule.Change) bool {
	before, after := objects(c)
	object := pod.Object()
	return slices.ContainsFunc(h.of[plugin], func(one hint) bool {
		// Most changes end here: the plugin's function is called only for events that it has registered for.
		if one.event.Kind != c.Kind || one.event.Actions&c.Actions == 0 {
			return false
		}
		if one.ask == nil {
			return true
		}
		said, err := h.ask(one.ask, object, before, after)
		if err != nil {
			h.logger.Error("queueing hint failed; pod will be retried",
				"plugin", plugin, "pod", pod.Key(), "event", c.Label(), telemetry.KeyError, err)
		}
		return err != nil || said == framework.Queue
	})
}

// ask makes one call. A panic becomes an error: the caller is the leading queue.
func (h *hints) ask(
	f framework.QueueingHintFn, pod *corev1.Pod, before, after any,
) (said framework.QueueingHint, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f(h.klog, pod, before, after)
}

// objects returns the objects that upstream passes to a hint: API objects, untyped nil for none.
func objects(c rule.Change) (before, after any) {
	if c.OldPod != nil {
		before = c.OldPod.Object()
	}
	if c.NewPod != nil {
		after = c.NewPod.Object()
	}
	if c.OldNode != nil {
		before = c.OldNode.Object
	}
	if c.NewNode != nil {
		after = c.NewNode.Object
	}
	if c.OldObject != nil {
		before = c.OldObject.API
	}
	if c.NewObject != nil {
		after = c.NewObject.API
	}
	return before, after
}

// kindsOfResources are the kinds that plugins may register for, by upstream's names.
var kindsOfResources = map[framework.EventResource]events.Kind{
	framework.Pod:                   events.KindPod,
	framework.Node:                  events.KindNode,
	framework.PersistentVolume:      events.KindPersistentVolume,
	framework.PersistentVolumeClaim: events.KindVolumeClaim,
	framework.StorageClass:          events.KindStorageClass,
	framework.CSINode:               events.KindCSINode,
	framework.CSIDriver:             events.KindCSIDriver,
	framework.CSIStorageCapacity:    events.KindStorageCapacity,
	framework.VolumeAttachment:      events.KindVolumeAttachment,
	framework.ResourceClaim:         events.KindResourceClaim,
	framework.ResourceSlice:         events.KindResourceSlice,
	framework.DeviceClass:           events.KindDeviceClass,
}

// actions are those upstream actions that concern a single thing.
var actions = map[framework.ActionType]rule.Action{
	framework.Add:                                rule.Add,
	framework.Delete:                             rule.Delete,
	framework.UpdateNodeAllocatable:              rule.UpdateNodeAllocatable,
	framework.UpdateNodeLabel:                    rule.UpdateNodeLabel,
	framework.UpdateNodeTaint:                    rule.UpdateNodeTaint,
	framework.UpdateNodeCondition:                rule.UpdateNodeCondition,
	framework.UpdateNodeAnnotation:               rule.UpdateNodeAnnotation,
	framework.UpdateNodeDeclaredFeature:          rule.UpdateNodeDeclaredFeature,
	framework.UpdatePodLabel:                     rule.UpdatePodLabel,
	framework.UpdatePodScaleDown:                 rule.UpdatePodScaleDown,
	framework.UpdatePodToleration:                rule.UpdatePodToleration,
	framework.UpdatePodSchedulingGatesEliminated: rule.UpdatePodGatesEliminated,
	framework.UpdatePodGeneratedResourceClaim:    rule.UpdatePodGeneratedClaim,
}

// eventOf translates an event to package placement; false for events that are not reported to the queue: those of
// all resources at once, and of unsupported resources. Upstream's actions are bits, which are translated one by one.
func eventOf(e framework.ClusterEvent) (rule.Event, bool) {
	kind, known := kindsOfResources[e.Resource]
	event := rule.Event{Kind: kind}
	for theirs, ours := range actions {
		if e.ActionType&theirs != 0 {
			event.Actions |= ours
		}
	}
	if e.ActionType&framework.Update == framework.Update {
		event.Actions |= rule.UpdateOther // any update, including kinds of updates that have no name
	}
	return event, known
}
