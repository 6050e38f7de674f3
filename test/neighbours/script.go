package neighbours

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-scheduler/berth/test/perf/bench"
)

const mergePatch = types.MergePatchType

const (
	// fixedNodes of the script; the first of them is sick at the beginning. Berth puts no node into quarantine in a
	// cluster of fewer than four.
	fixedNodes = 4
	// movedAfter is how old pods of the workload "old" get before the descheduler moves them, a few in each pass.
	movedAfter, movedPerPass = 40, 3
	moveEvery                = 15 * time.Second
	// pendingMore is how much longer a pod may wait than with kube-scheduler, in seconds; nodesMore is how many nodes the
	// autoscaler may have more or fewer.
	pendingMore, nodesMore = 30, 1
	// calmFor is how long the number of nodes must not change at the end; calmWithin bounds the wait for that.
	calmFor, calmWithin = 75 * time.Second, 10 * time.Minute
)

// policy moves the pods of the workload "old", which is no error of theirs: it makes moves that autoscalers see.
var policy = fmt.Sprintf(`apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
maxNoOfPodsToEvictTotal: %d
profiles:
- name: old
  pluginConfig:
  - name: DefaultEvictor
  - name: PodLifeTime
    args:
      maxPodLifeTimeSeconds: %d
      labelSelector:
        matchLabels: {app: old}
  plugins:
    deschedule:
      enabled: [PodLifeTime]
`, movedPerPass, movedAfter)

// play is the script while it runs.
type play struct {
	*Scene
	w     *watcher
	began time.Time
	// web, batch, old, urgent and disks are the workloads.
	web, batch, old, urgent, disks workload
	// quarantined is the largest number of nodes that Berth had in quarantine when the script looked.
	quarantined float64
}

// script is the large script.
func (a autoscaler) script() Scenario {
	return Scenario{
		Name: "script", Sized: true,
		About: "hundreds of pods arrive, urgent ones preempt others, volumes are made for the nodes that were selected, " +
			"the descheduler moves pods, one node refuses every bind for 40 s, and in the end most pods leave.",
		Scheduling: Scheduling{Policy: policy, Interval: moveEvery},
		Run: func(ctx context.Context, s *Scene) (Result, error) {
			p := newPlay(s)
			if err := p.setUp(ctx, a); err != nil {
				return Result{}, err
			}
			if err := p.perform(ctx); err != nil {
				return Result{}, err
			}
			return p.result()
		},
	}
}

// newPlay divides the pods among the workloads: 40, 25, 15, 10 and 10 percent.
func newPlay(s *Scene) *play {
	share := func(percent int) int { return max(1, s.Pods*percent/100) } //nolint:mnd // percent
	return &play{
		Scene:  s,
		web:    workload{app: "web", replicas: share(40), cpu: "500m", class: lowClass},
		batch:  workload{app: "batch", replicas: share(25), cpu: "1", class: lowClass},
		old:    workload{app: "old", replicas: share(15), cpu: "250m", class: lowClass},
		urgent: workload{app: "urgent", replicas: share(10), cpu: "2", class: highClass},
		disks:  workload{app: "disks", replicas: share(10), cpu: "500m", class: lowClass, disk: true},
	}
}

func (p *play) workloads() []workload { return []workload{p.web, p.batch, p.old, p.urgent, p.disks} }

func (p *play) setUp(ctx context.Context, a autoscaler) (err error) {
	if err := createClasses(ctx, p.Scene); err != nil {
		return err
	}
	if p.w, err = a.ground(ctx, p.Scene, fixedNodes); err != nil {
		return err
	}
	if err := sicken(ctx, p.Scene, fixedName(0)); err != nil {
		return err
	}
	return createSickPods(ctx, p.Scene, fixedName(0))
}

// step is one thing that happens, at a time after the beginning.
type step struct {
	at   time.Duration
	what string
	do   func(context.Context) error
}

func (p *play) steps() []step {
	create := func(w workload, disrupted int) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := w.create(ctx, p.Scene); err != nil {
				return err
			}
			return w.budget(ctx, p.Scene, disrupted)
		}
	}
	const tenth = 10
	return []step{
		{0, "web and old arrive", func(ctx context.Context) error {
			if err := create(p.web, max(1, p.web.replicas/tenth))(ctx); err != nil {
				return err
			}
			return create(p.old, max(1, p.old.replicas/tenth))(ctx)
		}},
		{20 * time.Second, "batch arrives", create(p.batch, p.batch.replicas)},
		{40 * time.Second, "the sick node takes pods again", func(ctx context.Context) error { return heal(ctx, p.Scene) }},
		{60 * time.Second, "urgent arrives", create(p.urgent, 1)},
		{75 * time.Second, "disks arrive; nothing makes volumes yet", create(p.disks, 1)},
		{120 * time.Second, "volumes are made", func(context.Context) error { return startProvisioner(p.Scene) }},
		{180 * time.Second, "most pods leave", p.shrink},
	}
}

func (p *play) perform(ctx context.Context) error {
	p.began = time.Now()
	for _, step := range p.steps() {
		if err := p.until(ctx, step.at); err != nil {
			return err
		}
		p.Logf("%4.0f s: %s", time.Since(p.began).Seconds(), step.what)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return p.calm(ctx)
}

// until waits for a time after the beginning, and looks at Berth every second.
func (p *play) until(ctx context.Context, at time.Duration) error {
	for time.Since(p.began) < at {
		if p.Berth != nil {
			n, err := p.Berth.Metric(ctx, "berth_nodes_left_alone", `reason="quarantine"`)
			if err != nil {
				return err
			}
			p.quarantined = max(p.quarantined, n)
		}
		if err := bench.Pause(ctx, min(time.Second, max(0, time.Until(p.began.Add(at))))); err != nil {
			return err
		}
	}
	return nil
}

// shrink lets most pods leave: all with volumes, which keep their nodes, all that are moved again and again, and all
// urgent ones.
func (p *play) shrink(ctx context.Context) error {
	const webStays, batchStays = 3, 5 // one in three, and one in five
	for w, stay := range map[*workload]int{
		&p.web: p.web.replicas / webStays, &p.batch: p.batch.replicas / batchStays, &p.old: 0, &p.urgent: 0, &p.disks: 0,
	} {
		if err := w.scale(ctx, p.Scene, stay); err != nil {
			return err
		}
	}
	return nil
}

// calm waits until no pod is pending and the number of nodes has not changed for a while.
func (p *play) calm(ctx context.Context) error {
	count, since := -1, time.Now()
	return p.Eventually(ctx, calmWithin, "the number of nodes stays the same", func(ctx context.Context) (string, error) {
		pods, err := p.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
			FieldSelector: "spec.nodeName=", ResourceVersion: "0",
		})
		if err != nil {
			return "", err
		}
		now := -1
		if err := p.w.look(func(h *history) { now = h.present() }); err != nil {
			return "", err
		}
		if now != count || len(pods.Items) > 0 {
			count, since = now, time.Now()
		}
		if time.Since(since) < calmFor {
			return fmt.Sprintf("%d nodes, %d pods pending", now, len(pods.Items)), nil
		}
		return "", nil
	})
}

func (p *play) result() (Result, error) {
	now := time.Now()
	var r Result
	err := p.w.look(func(h *history) {
		r.Measures = append(r.Measures,
			Measure{Name: "elastic nodes, most", Value: float64(h.most), Margin: Within(nodesMore)},
			Measure{Name: "elastic nodes, at the end", Value: float64(h.present()), Margin: Within(nodesMore)},
			Measure{Name: "elastic nodes removed", Value: float64(h.removed())},
		)
		for _, app := range append(p.workloads(), workload{app: sickApp}) {
			waits := h.waits(app.app, now)
			if len(waits) == 0 {
				r.Wrong = append(r.Wrong, "no pod of "+app.app+" was seen")
				continue
			}
			r.Measures = append(r.Measures, Measure{
				Name: "longest pending, " + app.app, Unit: "s", Value: waits[0], Ranks: waits, Margin: AtMost(pendingMore),
			})
		}
		lost := h.lost()
		r.Measures = append(r.Measures,
			Measure{Name: "pods on a node that was removed", Value: float64(len(lost)), Margin: AtMost(0)})
		for _, text := range lost {
			p.Logf("%s", text)
		}
		r.Wrong = append(r.Wrong, h.stranded()...)
	})
	if p.Berth != nil && p.quarantined == 0 {
		r.Wrong = append(r.Wrong, "Berth had no node in quarantine: the script does not show what it is meant to")
	}
	return r, err
}

func fromInt(n int) intstr.IntOrString { return intstr.FromInt32(int32(n)) } //nolint:gosec // a script has hundreds

// pendingPod returns a pod of the script's namespace.
func pendingPod(name, cpu string) *corev1.Pod {
	template := workload{app: name, cpu: cpu}.template()
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name = namespace, name
	return pod
}
