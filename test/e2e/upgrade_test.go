//go:build e2e && upgrade

package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

var previousBerth = flag.String("previous", "", "the berth of an earlier commit, for TestMixedVersionsUnderLoad")

const (
	// steadily is how far apart pods arrive while versions change, and mostPods how many do at most.
	steadily = 200 * time.Millisecond
	mostPods = 6000
	// bindsPerMix is how many of them have to be bound by each mix of versions.
	bindsPerMix = 25
	// resumeUpgraded bounds the time without a bind: each replacement starts a process, on a machine
	// that runs everything.
	resumeUpgraded = 10 * time.Second
)

// clearsTaints has pods leave nodes at once whose taints they do not tolerate.
const clearsTaints = taintPolicy + "berth: {cooldown: 0s, maxPerOwner: 100%}\n"

// keepOut is the taint of nodes that are for some pods alone.
var keepOut = corev1.Taint{Key: "full", Effect: corev1.TaintEffectNoSchedule}

// skewed are the services whose versions differ, in the order of an upgrade.
var skewed = []string{"queue", "scheduler", "binder", "descheduler"}

// mixed is a fleet of two replicas of each service that may be of two versions.
type mixed struct {
	*fleet
	// policy is the descheduler's, namespace that of all pods.
	policy, namespace string
	seen              *harness.Binds
	// started counts processes, mixes the mixes of versions looked at so far.
	started, mixes int
	// running are the names of the members of each service.
	running map[string][]string
}

// Two versions run mixed while pods arrive all the time, on a ledger that the earlier one has begun: each service
// alone is of the other version, in both directions, then all are upgraded one by one, rolled back, and upgraded
// again. In every mix pods are placed, a pod preempts another, the descheduler moves one, and a node is deleted and
// registers again. In the end every pod is bound, none was bound twice, and the history of the ledger breaks no
// promise. Both versions confirm that.
func TestMixedVersionsUnderLoad(t *testing.T) {
	if *previousBerth == "" {
		t.Fatal("-previous is empty, want the berth of an earlier commit: make upgrade-check")
	}
	before, after := programs, programs
	before.Berth = *previousBerth
	s := newStack(t, sixtyNodes)
	for name, p := range map[string]harness.Programs{"before": before, "after": after} {
		result, err := p.Command(t.Context(), "version")
		s.must(err)
		t.Logf("%s: %s", name, result.Stdout)
	}
	m := newMixed(s, before)
	stop := m.load()
	began := time.Now()
	m.works("all are old")
	for _, service := range skewed {
		m.replace(service, after)
		m.works(service + " is new, the others are old")
		m.replace(service, before)
	}
	m.works("all are old again")
	for _, service := range skewed {
		m.replace(service, after)
		m.works("new down to the " + service)
	}
	for _, service := range skewed {
		m.replace(service, before)
		m.works(service + " is old, the others are new")
		m.replace(service, after)
	}
	m.works("all are new")
	for _, service := range skewed {
		m.replace(service, before)
	}
	m.works("all are old after all were new")
	for _, service := range skewed {
		m.replace(service, after)
	}
	m.works("all are new again")
	arrived := stop()
	s.bound(m.namespace, arrived, recoveredWithin)
	gap := m.seen.LongestGap(began, time.Now())
	t.Logf("%d pods, %d processes started, %s the longest time without a bind", arrived, m.started,
		gap.Round(time.Millisecond))
	if gap > resumeUpgraded {
		t.Errorf("no bind for %s, want one within %s", gap, resumeUpgraded)
	}
	_, err := m.seen.Count()
	s.must(err)
	s.boundAtMostOnce(m.namespace)
	s.audit()
	result, err := before.Command(
		t.Context(), "check", "--kubeconfig", s.cluster.Kubeconfig, "--etcd-endpoints", m.etcdURL)
	s.must(err)
	if result.Code != 0 {
		t.Errorf("berth check of the earlier version: exit code %d\n%s%s", result.Code, result.Stdout, result.Stderr)
	}
}

// newMixed starts all services in one version.
func newMixed(s *stack, version harness.Programs) *mixed {
	s.Helper()
	m := &mixed{
		fleet:   &fleet{stack: s, members: map[string]*harness.Berth{}},
		running: map[string][]string{}, namespace: s.namespace("steady"),
		policy: s.file("policy.yaml", clearsTaints),
	}
	m.etcd = m.store("etcd")
	m.etcdURL, m.natsURL = m.etcd.URL, m.store("nats").URL
	for _, service := range skewed {
		for range 2 {
			m.add(service, version)
		}
	}
	s.priorityClass("low", 10)
	s.priorityClass("high", 1000)
	s.deployment(s.namespace("moved"), "moved", 10)
	s.bound("moved", 10, placedWithin)
	var err error
	m.seen, err = harness.WatchBinds(s.Context(), s.client, m.namespace)
	s.must(err)
	return m
}

// add starts one more replica.
func (m *mixed) add(service string, version harness.Programs) {
	m.Helper()
	m.started++
	cfg := harness.RunConfig{
		Service: service, Name: fmt.Sprintf("%s-%d", service, m.started), NATS: m.natsURL, Etcd: m.etcdURL, LogDir: m.dir,
	}
	switch service {
	case "queue", "binder":
		cfg.Kubeconfig = m.cluster.Kubeconfig
	case "descheduler":
		cfg.Args = []string{"--policy", m.policy, "--descheduling-interval", "1s"}
	}
	member, err := version.Run(m.Context(), cfg)
	m.must(err)
	m.members[cfg.Name] = member
	m.running[service] = append(m.running[service], cfg.Name)
	m.stopAtEnd(member)
}

// replace rolls a service to a version as its Deployment does: a new replica is ready before an old one is stopped.
func (m *mixed) replace(service string, version harness.Programs) {
	m.Helper()
	for _, old := range m.running[service] {
		m.add(service, version)
		m.must(m.members[old].Stop(m.Context()))
		m.running[service] = m.running[service][1:]
	}
}

// load creates pods until the function that it returns is called, which returns their number.
func (m *mixed) load() (stop func() int) {
	var arrived atomic.Int64
	ctx, cancel := context.WithCancel(m.Context())
	group := &errgroup.Group{}
	group.Go(func() error {
		tick := time.NewTicker(steadily)
		defer tick.Stop()
		for _, pod := range mixedPods(m.namespace, mostPods) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
			if err := harness.CreatePods(m.Context(), m.client, []*corev1.Pod{pod}); err != nil {
				return err
			}
			arrived.Add(1)
		}
		return fmt.Errorf("%d pods were not enough", mostPods)
	})
	return func() int {
		cancel()
		m.must(group.Wait())
		return int(arrived.Load())
	}
}

// works has the present mix of versions do something of everything.
func (m *mixed) works(mix string) {
	m.Helper()
	m.Log(mix)
	m.mixes++
	count, err := m.seen.Count()
	m.must(err)
	m.must(m.seen.Wait(m.Context(), count+bindsPerMix, placedWithin))
	m.preempts()
	m.deschedules()
	m.registersAgain()
}

// preempts fills a node of its own and has a more important pod come.
func (m *mixed) preempts() {
	m.Helper()
	name := fmt.Sprintf("full-%d", m.mixes)
	m.addNodes(nodeSpec{
		name: name, capacity: "2", labels: map[string]string{"full": name}, taints: []corev1.Taint{keepOut},
	})
	ns := m.stack.namespace(name)
	here := []podOption{
		selecting("full", name), tolerating(corev1.Toleration{Key: keepOut.Key, Operator: corev1.TolerationOpExists}),
	}
	m.create(newPods(ns, "filler", 2, "1", append(here, ofPriority("low"))...)...)
	m.bound(ns, 2, placedWithin)
	m.create(newPod(ns, "urgent", "1", append(here, ofPriority("high"))...))
	m.nodeOf(ns, "urgent")
}

// deschedules taints the node of a pod, waits until the pod has been moved, and takes the taint away.
func (m *mixed) deschedules() {
	m.Helper()
	victim := m.pods("moved")[0]
	taint := func(taints string) {
		m.Helper()
		_, err := m.client.CoreV1().Nodes().Patch(m.Context(), victim.Spec.NodeName, types.StrategicMergePatchType,
			[]byte(`{"spec":{"taints":`+taints+`}}`), metav1.PatchOptions{})
		m.must(err)
	}
	taint(`[{"key":"away","effect":"NoSchedule"}]`)
	m.eventually(recoveredWithin, victim.Name+" is moved", func(ctx context.Context) (string, error) {
		list, err := m.client.CoreV1().Pods("moved").List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		placed := 0
		for _, p := range list.Items {
			if p.UID == victim.UID {
				return "it is there", nil
			}
			if p.Spec.NodeName != "" {
				placed++
			}
		}
		if placed < len(list.Items) || placed < 10 {
			return fmt.Sprintf("%d of %d placed", placed, len(list.Items)), nil
		}
		return "", nil
	})
	taint(`null`)
}

// registersAgain deletes the same node in every mix, with a pod on it, and registers it again under its name. Of the
// pods created for it exactly those that fit are bound.
func (m *mixed) registersAgain() {
	m.Helper()
	const name, room = "again", 3
	spec := nodeSpec{
		name: name, capacity: fmt.Sprint(room), labels: map[string]string{"again": name}, taints: []corev1.Taint{keepOut},
	}
	here := []podOption{
		selecting("again", name), tolerating(corev1.Toleration{Key: keepOut.Key, Operator: corev1.TolerationOpExists}),
	}
	if m.mixes == 1 {
		m.addNodes(spec)
	}
	ns := m.stack.namespace(fmt.Sprintf("again-%d", m.mixes))
	m.create(newPod(ns, "before", "1", here...))
	m.nodeOf(ns, "before")
	m.must(m.client.CoreV1().Nodes().Delete(m.Context(), name, metav1.DeleteOptions{}))
	m.addNodes(spec)
	m.create(newPods(ns, "after", room, "1", here...)...)
	placed := m.bound(ns, room, placedWithin)
	if len(placed) > room {
		m.Errorf("%d pods are bound to %s, which has room for %d", len(placed), name, room)
	}
	var names []string
	for _, pod := range m.pods(ns) {
		names = append(names, pod.Name)
	}
	m.deletePods(ns, names...)
}
