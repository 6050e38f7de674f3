package plugins

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// The acts of plugins once a node has been chosen. Source: prepareForBindingCycle and bindingCycle in
// pkg/scheduler/schedule_one.go, and the Run functions of pkg/scheduler/framework/runtime, from which the messages
// are taken.
//
// A cycle is remembered from its question on, and belongs to the shard that asked. The act that removes it from the
// open cycles runs Unreserve, or PostBind, so that each runs once. For Unreserve that is ActUndo, unless ActPrepare
// is in progress, which then ends early and runs Unreserve itself.

// errTakenBack is the cause with which a plugin's context ends before its work is done. It is not logged as a
// failure.
var errTakenBack = errors.New("the reservation of the pod was cancelled")

// openCycle is a cycle, from its question to its end. Its fields are set at ActReserve, and do not change
// afterwards, but for preparing. The acts of one cycle are requested one after the other; only ActUndo may come
// while ActPrepare or ActBind is in progress.
type openCycle struct {
	id    uint64
	cycle *cycle
	// seen is the cluster that the plugins were shown with the question; later acts of the cycle show the same.
	seen *cluster
	// pod is the pod as plugins see it, with the node; nil before ActReserve.
	pod  *corev1.Pod
	node string
	// waits is the wait that Permit has asked for, nil for none.
	waits *waitingPod
	// preparing ends ActPrepare; nil when that is not in progress. Guarded by deals.
	preparing context.CancelCauseFunc
}

// cycleKey identifies a question of a shard.
type cycleKey struct {
	shard string
	id    uint64
}

// openCycles are the cycles of a process that have not ended. Safe for concurrent use.
type openCycles struct {
	mu struct {
		sync.Mutex
		// latest is the last cycle of each shard, open are those in which plugins have reserved.
		latest map[string]*openCycle
		open   map[cycleKey]*openCycle
	}
}

// newOpenCycles returns no cycles.
func newOpenCycles() *openCycles {
	d := &openCycles{}
	d.mu.latest, d.mu.open = map[string]*openCycle{}, map[cycleKey]*openCycle{}
	return d
}

// remember keeps a cycle until its shard asks the next question: most questions are followed by no act.
func (ds *openCycles) remember(shard string, d *openCycle) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.mu.latest[shard] = d
}

// last returns the last cycle of a shard, if it has this key.
func (ds *openCycles) last(k cycleKey) (*openCycle, error) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d := ds.mu.latest[k.shard]
	if d == nil || d.id != k.id {
		return nil, fmt.Errorf("cycle %d of %s is gone", k.id, k.shard)
	}
	return d, nil
}

// begin opens the last cycle of a shard, if it has this key. An error means that the shard has asked again since, or
// that the process was started after the question.
func (ds *openCycles) begin(k cycleKey) (*openCycle, error) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d := ds.mu.latest[k.shard]
	if d == nil || d.id != k.id {
		return nil, fmt.Errorf("cycle %d of %s is gone", k.id, k.shard)
	}
	// From here on the cycle outlives the next question of its shard.
	delete(ds.mu.latest, k.shard)
	ds.mu.open[k] = d
	return d, nil
}

// prepare marks a cycle as being at ActPrepare, or at ActBind; false if it has ended. cancel ends the act when the
// cycle is taken back meanwhile.
func (ds *openCycles) prepare(k cycleKey, cancel context.CancelCauseFunc) (*openCycle, bool) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d, ok := ds.mu.open[k]
	if ok {
		d.preparing = cancel
	}
	return d, ok
}

// prepared ends such an act; false if the cycle was taken back in the meantime. The caller must then run Unreserve,
// since the act that took it back has left that to it.
func (ds *openCycles) prepared(k cycleKey, d *openCycle) bool {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d.preparing = nil
	return ds.mu.open[k] == d
}

// end removes a cycle from the open ones, and reports whether the caller must finish it: no other caller has removed
// it, and no act in progress will finish it. An act in progress is cancelled.
func (ds *openCycles) end(k cycleKey) (*openCycle, bool) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d, ok := ds.mu.open[k]
	if !ok {
		return nil, false
	}
	delete(ds.mu.open, k)
	if d.preparing != nil {
		d.preparing(errTakenBack)
		return nil, false
	}
	return d, true
}

// Acts reports whether plugins act once a node has been chosen, or may have left pods in the cycle to be activated
// then.
func (s *Set) Acts() bool {
	return s.runtime.toActivate != nil || len(s.reserve)+len(s.permit)+len(s.preBind)+len(s.bind)+len(s.postBind) > 0
}

// Perform makes the plugins act, and returns when they have finished. The acts of one cycle are requested in their
// order. ActUndo and ActBound of a cycle that is not open any more do nothing: the process was restarted, or another
// act has ended it. The wait for the cycle slot is only part of ActReserve and ActPostFilter, as upstream's binding
// cycles run beside the next scheduling cycle.
func (s *Set) Perform(ctx context.Context, p step.PluginRequest) step.PluginResult {
	answer := step.PluginResult{ID: p.ID, Act: p.Act}
	key := cycleKey{p.Shard, p.ID}
	switch p.Act {
	case step.ActReserve:
		s.reserveFor(ctx, key, p, &answer)
	case step.ActPrepare:
		s.prepareFor(ctx, key, &answer)
	case step.ActPostFilter:
		s.postFilterFor(ctx, p, &answer)
	case step.ActBind:
		s.bindFor(ctx, key, &answer)
	// A cycle in which an act is in progress is unreserved by that act, when it has ended.
	case step.ActUndo:
		if d, mine := s.runtime.open.end(key); mine {
			s.unreserve(ctx, d)
		}
	case step.ActBound:
		if d, mine := s.runtime.open.end(key); mine {
			for _, plugin := range s.postBind {
				begin := time.Now()
				plugin.PostBind(ctx, d.cycle, d.pod, d.node)
				d.timeCall("PostBind", plugin.Name(), nil, begin)
			}
			s.runtime.activateFrom(d.cycle)
		}
	}
	// A cycle that the shard itself has taken back is no failure of a plugin.
	if answer.Err != nil && !errors.Is(answer.Err, errTakenBack) {
		s.logger.Warn("plugin failed; pod will be retried", "pod", p.Pod.Key(), "node", p.Node,
			telemetry.KeyError, answer.Err)
	}
	return answer
}

// setFailure puts a status other than success into an answer; prefix names the plugin that was asked. A rejection
// becomes a verdict on the pod, any other code an error, after which the pod is retried.
func setFailure(answer *step.PluginResult, status *framework.Status, plugin, prefix string) {
	if status.IsRejected() {
		answer.Refusal = &step.Refusal{Plugin: plugin, Reasons: status.Reasons()}
		return
	}
	answer.Err = fmt.Errorf("%s: %w", prefix, status.AsError())
}

// reserveFor is the rest of a scheduling cycle: Reserve and Permit. It holds the cycle slot, and shows the plugins
// the cluster of the question again. If plugins refuse or fail, what they have reserved is undone before it returns.
func (s *Set) reserveFor(ctx context.Context, key cycleKey, p step.PluginRequest, answer *step.PluginResult) {
	d, err := s.runtime.open.begin(key)
	if err != nil {
		answer.Err = err
		return
	}
	// Upstream assumes the pod on its node before Reserve, so that plugins see its node.
	d.pod, d.node = p.Pod.Object(), p.Node
	d.pod.Spec.NodeName = p.Node
	// Plugins have not reserved anything yet, so nothing must be undone.
	if !s.runtime.beginCycle(ctx) {
		s.runtime.open.end(key)
		answer.Err = ctx.Err()
		return
	}
	defer s.runtime.endCycle()
	s.runtime.seen.Store(d.seen)
	s.reserveIn(ctx, d, answer)
	if answer.Err == nil && answer.Refusal == nil {
		return
	}
	if d, mine := s.runtime.open.end(key); mine {
		s.unreserve(ctx, d)
	}
}

// reserveIn runs Reserve and Permit, and asks what must be done before the bind. The steps:
//
//  1. Reserve of all plugins; the first that fails ends it.
//  2. Permit of all plugins; the first that rejects ends it. Plugins that ask to wait are noted.
//  3. The pods that plugins want tried now are activated.
//  4. PreBindPreFlight: whether PreBind has work. If not, and no plugin waits, the place need not be held first.
//  5. Whether plugins must be asked to bind.
func (s *Set) reserveIn(ctx context.Context, d *openCycle, answer *step.PluginResult) {
	for _, plugin := range s.reserve {
		begin := time.Now()
		status := plugin.Reserve(ctx, d.cycle, d.pod, d.node)
		d.timeCall("Reserve", plugin.Name(), status, begin)
		if !status.IsSuccess() {
			setFailure(answer, status, plugin.Name(), fmt.Sprintf("running Reserve plugin %q", plugin.Name()))
			return
		}
	}
	waits := s.permits(ctx, d, answer)
	if answer.Err != nil || answer.Refusal != nil {
		return
	}
	s.runtime.activateFrom(d.cycle)
	if len(waits) > 0 {
		d.waits = s.runtime.waiting.add(d.pod, waits)
	}
	work, err := s.preFlights(ctx, d)
	if err != nil {
		answer.Err = err
		return
	}
	answer.Later = len(waits) > 0 || work
	answer.Binds = s.binds(d)
}

// maxPermit is the longest time for which Permit may make a pod wait. Source: maxTimeout in
// pkg/scheduler/framework/runtime/framework.go. txns.PreparedFor is longer, so that the place is held for all of it.
const maxPermit = 15 * time.Minute

// permits runs all Permit plugins until one rejects; waits are the plugins that make the pod wait, with the longest
// time.
func (s *Set) permits(ctx context.Context, d *openCycle, answer *step.PluginResult) (waits map[string]time.Duration) {
	waits = map[string]time.Duration{}
	for _, plugin := range s.permit {
		begin := time.Now()
		status, patience := plugin.Permit(ctx, d.cycle, d.pod, d.node)
		d.timeCall("Permit", plugin.Name(), status, begin)
		switch {
		case status.IsSuccess():
		case status.IsWait():
			waits[plugin.Name()] = min(patience, maxPermit)
		default:
			setFailure(answer, status, plugin.Name(), fmt.Sprintf("running Permit plugin %q", plugin.Name()))
			return nil
		}
	}
	return waits
}

// preFlights asks what must be done before the bind: work is true if any plugin does not skip. It also notes which
// plugins are skipped at PreBind and which may run in parallel, as upstream's RunPreBindPreFlights does.
func (s *Set) preFlights(ctx context.Context, d *openCycle) (work bool, err error) {
	skip, parallel := sets.New[string](), sets.New[string]()
	for _, plugin := range s.preBind {
		begin := time.Now()
		result, status := plugin.PreBindPreFlight(ctx, d.cycle, d.pod, d.node)
		d.timeCall("PreBindPreFlight", plugin.Name(), status, begin)
		if result != nil && result.AllowParallel {
			parallel.Insert(plugin.Name())
		}
		switch {
		case status.IsSuccess():
			work = true
		case status.IsSkip():
			skip.Insert(plugin.Name())
		case status.Code() == framework.Error:
			return false, fmt.Errorf("running PreBindPreFlight %q: %w", plugin.Name(), status.AsError())
		default:
			return false, fmt.Errorf("PreBindPreFlight %s returned %q, which is unsupported. It is supposed to return "+
				"Success, Skip, or Error status", plugin.Name(), status.Code())
		}
	}
	d.cycle.SetSkipPreBindPlugins(skip)
	d.cycle.SetParallelPreBindPlugins(parallel)
	return work, nil
}

// prepareFor is a binding cycle up to the bind: the wait at Permit, then PreBind. If plugins heed their context, it
// takes no longer than a place is held for it.
func (s *Set) prepareFor(ctx context.Context, key cycleKey, answer *step.PluginResult) {
	s.during(ctx, key, txns.PreparedFor, answer, func(until context.Context, d *openCycle) {
		s.permitted(until, d, answer)
		if answer.Err == nil && answer.Refusal == nil {
			answer.Err = s.preBinds(until, d)
		}
	})
}

// during runs a part of a binding cycle for at most limit, while the cycle is open. A cycle that was taken back in
// the meantime, or that the part ends by a refusal or an error, is unreserved. One of the two always does that,
// never both: end and prepared decide it under one lock.
func (s *Set) during(ctx context.Context, key cycleKey, limit time.Duration, answer *step.PluginResult,
	part func(context.Context, *openCycle)) {
	// Two contexts: the first ends with the time, the second with a cause when the cycle is taken back
	// (openCycles.end).
	until, stop := context.WithTimeout(ctx, limit)
	defer stop()
	until, cancel := context.WithCancelCause(until)
	defer cancel(nil)
	d, ok := s.runtime.open.prepare(key, cancel)
	if !ok {
		answer.Err = errTakenBack
		return
	}
	// No lock is held: the part may take minutes, and ActUndo may end the cycle in the meantime.
	part(until, d)
	if standing := s.runtime.open.prepared(key, d); !standing {
		answer.Refusal, answer.Err = nil, errTakenBack
		s.unreserve(ctx, d)
		return
	}
	if answer.Err == nil && answer.Refusal == nil {
		return
	}
	if ended, mine := s.runtime.open.end(key); mine {
		s.unreserve(ctx, ended)
	}
}

// permitted waits until all plugins have allowed the pod, or one has rejected it. Plugins do so from any goroutine,
// through the handle. A pod that no plugin made wait passes at once.
func (s *Set) permitted(ctx context.Context, d *openCycle, answer *step.PluginResult) {
	if d.waits == nil {
		return
	}
	defer s.runtime.waiting.remove(d.waits)
	begin := time.Now()
	select {
	case <-ctx.Done():
		answer.Err = context.Cause(ctx)
	case status := <-d.waits.answered:
		telemetry.PermitWait(status.Code().String(), time.Since(begin))
		if !status.IsSuccess() {
			setFailure(answer, status, status.Plugin(), "waiting on permit for pod")
		}
	}
}

// preBinds runs the work before the bind. Plugins that allow it run in parallel with their neighbours in the
// configured order; the others run alone. Another plugin may cancel the pod until MarkPrebound. Source:
// RunPreBindPlugins in pkg/scheduler/framework/runtime/framework.go.
func (s *Set) preBinds(ctx context.Context, d *openCycle) error {
	skip, parallel := d.cycle.GetSkipPreBindPlugins(), d.cycle.GetParallelPreBindPlugins()
	// Nothing to run: the wait at Permit was the only reason to hold the place.
	if len(skip) == len(s.preBind) {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	under := s.runtime.inPreBind.add(d.pod.UID, cancel)
	defer s.runtime.inPreBind.remove(d.pod.UID)
	var group []framework.PreBindPlugin
	for _, plugin := range s.preBind {
		// A plugin that must run alone ends the group before it, and is a group of its own.
		alone := !parallel.Has(plugin.Name())
		if alone {
			if err := s.preBindGroup(ctx, d, group); err != nil {
				return err
			}
			group = nil
		}
		if skip.Has(plugin.Name()) {
			continue
		}
		if group = append(group, plugin); alone {
			if err := s.preBindGroup(ctx, d, group); err != nil {
				return err
			}
			group = nil
		}
	}
	if err := s.preBindGroup(ctx, d, group); err != nil {
		return err
	}
	// Another plugin has cancelled the pod while the last of them ran.
	if !under.MarkPrebound() {
		return context.Cause(ctx)
	}
	return nil
}

// preBindGroup runs plugins in parallel, and returns the error of the first that failed.
func (s *Set) preBindGroup(ctx context.Context, d *openCycle, group []framework.PreBindPlugin) error {
	if len(group) == 1 {
		return d.preBind(ctx, group[0])
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var first sync.Once
	var failed error
	s.handle.parallel.Until(ctx, len(group), func(i int) {
		if err := d.preBind(ctx, group[i]); err != nil {
			first.Do(func() { failed = err })
			cancel(errors.New("some other PreBind operation failed"))
		}
	}, "PreBind")
	return failed
}

// preBind runs one plugin's PreBind. If the context was cancelled, the error is the cause of that, not the plugin's.
func (d *openCycle) preBind(ctx context.Context, plugin framework.PreBindPlugin) error {
	begin := time.Now()
	status := plugin.PreBind(ctx, d.cycle, d.pod, d.node)
	d.timeCall("PreBind", plugin.Name(), status, begin)
	switch {
	case status.IsSuccess():
		return nil
	case status.IsRejected():
		return status.AsError()
	}
	err := status.AsError()
	if errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("running PreBind plugin %q: %w", plugin.Name(), err)
}

// unreserve makes the plugins take back what they have reserved, in reverse order. The cancellation that ended the
// other acts does not stop it.
func (s *Set) unreserve(ctx context.Context, d *openCycle) {
	if d.waits != nil {
		s.runtime.waiting.remove(d.waits)
	}
	// Unreserve must run even if the shard is stopping, since plugins may have reserved something outside the
	// process.
	ctx = context.WithoutCancel(ctx)
	for i := len(s.reserve) - 1; i >= 0; i-- {
		begin := time.Now()
		s.reserve[i].Unreserve(ctx, d.cycle, d.pod, d.node)
		d.timeCall("Unreserve", s.reserve[i].Name(), nil, begin)
	}
}

// timeCall counts one call of a plugin, if this cycle is timed.
func (d *openCycle) timeCall(point, plugin string, status *framework.Status, begin time.Time) {
	if d.id%timedShare == 0 {
		telemetry.PluginExecution(plugin, point, status.Code().String(), time.Since(begin))
	}
}
