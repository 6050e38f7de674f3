package plugins

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"
)

// waitingPods are the pods of a process, of all profiles, that Permit plugins make wait. Safe for concurrent use.
type waitingPods struct {
	mu struct {
		sync.Mutex
		byUID map[types.UID]*waitingPod
	}
}

// newWaitingPods returns no waiting pods.
func newWaitingPods() *waitingPods {
	w := &waitingPods{}
	w.mu.byUID = map[types.UID]*waitingPod{}
	return w
}

// add makes a pod wait for plugins, for each at most for its timeout. After the timeout of the first plugin the pod
// is rejected in that plugin's name. The lock of the pod is held while the timers are made, so that none fires
// before all are noted.
func (w *waitingPods) add(pod *corev1.Pod, patience map[string]time.Duration) *waitingPod {
	p := &waitingPod{pod: pod, answered: make(chan *framework.Status, 1)}
	p.mu.Lock()
	p.mu.pending = make(map[string]*time.Timer, len(patience))
	for plugin, most := range patience {
		p.mu.pending[plugin] = time.AfterFunc(most, func() {
			p.Reject(plugin, fmt.Sprintf("rejected due to timeout after waiting %v at plugin %v", most, plugin))
		})
	}
	p.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.byUID[pod.UID] = p
	return p
}

// remove ends the wait of a pod, whatever its result. A later wait of the same pod is not affected.
func (w *waitingPods) remove(p *waitingPod) {
	p.finish(framework.NewStatus(framework.Error, "no longer waiting"))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.byUID[p.pod.UID] == p {
		delete(w.mu.byUID, p.pod.UID)
	}
}

// get returns nil for a pod that does not wait.
func (w *waitingPods) get(uid types.UID) *waitingPod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.byUID[uid]
}

// all returns the waiting pods, in no order.
func (w *waitingPods) all() []*waitingPod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.mu.byUID))
}

// waitingPod implements framework.WaitingPod. Exactly one answer ends the wait: the last Allow, the first Reject or
// Preempt, a timeout, or remove. Later ones have no effect.
type waitingPod struct {
	pod *corev1.Pod
	// answered delivers the one answer. It has room for it, so that the plugin that answers never blocks.
	answered chan *framework.Status
	mu       struct {
		sync.Mutex
		// pending are the plugins that have not allowed the pod yet, with their timeouts.
		pending map[string]*time.Timer
		over    bool
	}
}

// GetPod returns the pod with its node: shared, plugins must not change it.
func (p *waitingPod) GetPod() *corev1.Pod { return p.pod }

// GetPendingPlugins returns the names of the pending plugins, sorted.
func (p *waitingPod) GetPendingPlugins() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.mu.pending))
}

// Allow ends the wait if no other plugin is pending.
func (p *waitingPod) Allow(plugin string) {
	p.mu.Lock()
	if timer, pending := p.mu.pending[plugin]; pending {
		timer.Stop()
		delete(p.mu.pending, plugin)
	}
	// A plugin that is not pending may allow the pod too; if none is pending any more, that ends the wait, as
	// upstream.
	last := len(p.mu.pending) == 0
	p.mu.Unlock()
	if last {
		p.finish(nil)
	}
}

// Reject returns false if the wait has ended already.
func (p *waitingPod) Reject(plugin, message string) bool {
	return p.finish(framework.NewStatus(framework.Unschedulable, message).WithPlugin(plugin))
}

// Preempt ends the wait as a failure, after which the pod is retried.
func (p *waitingPod) Preempt(plugin, message string) bool {
	return p.finish(framework.NewStatus(framework.Error, message).WithPlugin(plugin))
}

// finish ends the wait; false if it has ended already.
func (p *waitingPod) finish(status *framework.Status) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.over {
		return false
	}
	p.mu.over = true
	for _, timer := range p.mu.pending {
		timer.Stop()
	}
	p.answered <- status
	return true
}

// preBinds are the pods of a process at PreBind. Safe for concurrent use.
type preBinds struct {
	mu struct {
		sync.Mutex
		byUID map[types.UID]*preBind
	}
}

// newPreBinds returns no pods.
func newPreBinds() *preBinds {
	b := &preBinds{}
	b.mu.byUID = map[types.UID]*preBind{}
	return b
}

// add notes that a pod is at PreBind; cancel ends the context of its plugins.
func (b *preBinds) add(uid types.UID, cancel context.CancelCauseFunc) *preBind {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &preBind{cancel: cancel}
	b.mu.byUID[uid] = p
	return p
}

// remove notes that a pod has left PreBind.
func (b *preBinds) remove(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.mu.byUID, uid)
}

// get returns nil for a pod that is not at PreBind.
func (b *preBinds) get(uid types.UID) *preBind {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.byUID[uid]
}

// preBind implements framework.PodInPreBind: the first call of CancelPod or MarkPrebound wins. After MarkPrebound the
// pod cannot be cancelled any more.
type preBind struct {
	cancel context.CancelCauseFunc
	mu     struct {
		sync.Mutex
		done, canceled bool
	}
}

// CancelPod ends the context of the work before the bind; false if that has ended.
func (p *preBind) CancelPod(reason string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.done {
		return false
	}
	if !p.mu.canceled {
		p.mu.canceled = true
		p.cancel(errors.New(reason))
	}
	return true
}

// MarkPrebound returns false if it was cancelled.
func (p *preBind) MarkPrebound() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.done = !p.mu.canceled
	return p.mu.done
}
