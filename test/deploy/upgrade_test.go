//go:build e2e && upgrade

package deploy_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

var (
	previous      = flag.String("previous", "", "the folder deploy of an earlier version")
	previousBerth = flag.String("previous-berth", "", "the berth of that version")
)

// installations are the kustomizations, and values files of the same names, that users install and upgrade.
var installations = []string{"ha", "second-scheduler", "replace-default", "descheduler-job", "descheduler-cronjob"}

// program runs a program against the cluster, and ends the test if it fails.
func (s *system) program(name string, args ...string) string {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), filepath.Join(programs.Root, ".build", "bin", name), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.cluster.Kubeconfig, "HELM_CACHE_HOME="+s.dir, "HELM_CONFIG_HOME="+s.dir,
		"HELM_DATA_HOME="+s.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// nothingLeft waits until the cluster has no object of Berth, of any kind.
func (s *system) nothingLeft() {
	s.Helper()
	kinds := strings.Fields(s.program("kubectl", "api-resources", "--verbs=list", "-o", "name"))
	s.eventually(admittedWithin, "nothing of Berth is left", func(context.Context) (string, error) {
		return s.kubectl("", "get", strings.Join(kinds, ","), "--all-namespaces", "--ignore-not-found",
			"--selector", "app.kubernetes.io/part-of=berth", "--output", "name")
	})
}

// TestManifestsAreUpgraded: `kubectl apply -k` installs the version before and upgrades it to this one, for every
// kustomization. Afterwards the cluster has what this version says. The way back is the same.
func TestManifestsAreUpgraded(t *testing.T) {
	for _, name := range installations {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t, "")
			before := filepath.Join(*previous, "k8s", "overlays", name)
			now := filepath.Join(programs.Root, "deploy", "k8s", "overlays", name)
			for _, version := range []string{before, now, before, now} {
				s.program("kubectl", "apply", "-k", version)
				s.program("kubectl", "diff", "-k", version)
			}
			s.program("kubectl", "delete", "-k", now)
			s.nothingLeft()
		})
	}
}

// TestChartIsUpgraded: `helm upgrade` does the same with the chart, changes the image, and rolls back.
func TestChartIsUpgraded(t *testing.T) {
	for _, name := range installations {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t, "")
			helm := func(verb, deploy string, more ...string) {
				chart := filepath.Join(deploy, "helm", "berth")
				values := filepath.Join(chart, "values-"+name+".yaml")
				args := []string{verb, "berth", chart, "--namespace", namespace, "--values", values}
				s.program("helm", append(args, more...)...)
			}
			now := filepath.Join(programs.Root, "deploy")
			helm("install", *previous, "--create-namespace")
			helm("upgrade", now)
			helm("upgrade", now, "--set", "image.tag=0.1.1")
			s.program("helm", "rollback", "berth", "2", "--namespace", namespace)
			s.program("helm", "rollback", "berth", "1", "--namespace", namespace)
			helm("upgrade", now)
			s.program("helm", "uninstall", "berth", "--namespace", namespace)
			s.program("kubectl", "delete", "namespace", namespace)
			s.nothingLeft()
		})
	}
}

// TestPeersGetAnAuthority follows docs/upgrade.md for stores whose members had no authority of their own: one member
// after the other is replaced, twice, and both stores take writes after each. In the end no certificate of a service
// is one of a member. NATS begins with empty volumes where that page requires it.
func TestPeersGetAnAuthority(t *testing.T) {
	s := newSystem(t, "")
	before, err := s.kubectl("", "kustomize", filepath.Join(*previous, "k8s", "overlays", "ha"))
	s.must(err)
	if strings.Contains(before, "peer-tls") {
		t.Log("the earlier version has the authority already: nothing changes in the first round")
	}
	s.shipped = s.decode(before)
	s.certificates("--peers-accept-services-authority")
	s.startStores()
	w := s.writer(t)
	w.write("before anything changed")
	apart := s.streamsApart()
	s.shipped = s.objects("overlays/ha")
	if s.streamsApart() != apart {
		s.stores.lost("nats")
		s.stores.startAll("nats")
		w.makeStream()
	}
	w.replaceMembers("with the authority")
	s.certificates()
	w.replaceMembers("with the authority alone")
	s.foreignPeers(t)
}

// streamsApart reports whether the streams have an account of NATS of their own. NATS moves no stream to another one.
func (s *system) streamsApart() bool {
	s.Helper()
	return strings.Contains(s.storeConfig()["nats-permissions.conf"], "accounts {")
}

// storeWriter writes to both stores.
type storeWriter struct {
	*system
	js nats.JetStreamContext
	t  *testing.T
}

// writer makes a stream.
func (s *system) writer(t *testing.T) *storeWriter {
	t.Helper()
	c, err := nats.Connect(strings.Join(s.stores.natsURLs(), ","), nats.Secure(s.identity("root")), nats.MaxReconnects(-1))
	s.must(err)
	t.Cleanup(c.Close)
	js, err := c.JetStream()
	s.must(err)
	w := &storeWriter{system: s, js: js, t: t}
	w.makeStream()
	return w
}

// makeStream makes a stream that is kept by all servers.
func (w *storeWriter) makeStream() {
	w.Helper()
	w.eventually(readyWithin, "NATS makes a stream", func(context.Context) (string, error) {
		_, err := w.js.AddStream(&nats.StreamConfig{Name: "written", Subjects: []string{"written"}, Replicas: storeMembers})
		return reason(err), nil
	})
}

func (w *storeWriter) write(when string) {
	w.Helper()
	w.eventually(readyWithin, when+", NATS stores a message", func(ctx context.Context) (string, error) {
		_, err := w.js.Publish("written", []byte(when), nats.Context(ctx))
		return reason(err), nil
	})
	client := w.etcdClient(w.t, "root")
	w.eventually(readyWithin, when+", etcd stores a key", func(ctx context.Context) (string, error) {
		_, err := client.Put(ctx, "/written", when)
		return reason(err), nil
	})
	w.must(client.Close())
}

// replaceMembers replaces one member after the other, the last first, as a StatefulSet does.
func (w *storeWriter) replaceMembers(what string) {
	w.Helper()
	for _, store := range []string{"etcd", "nats"} {
		for n := storeMembers - 1; n >= 0; n-- {
			name := fmt.Sprintf("%s-%d", store, n)
			w.stores.running[name].Kill()
			w.stores.startMember(store, n)
			w.stores.ready(store, n)
			w.write(name + " " + what)
		}
	}
}

// TestAdoption is the complete walk of an operator: the previous version is installed next to kube-scheduler and gets
// a namespace, is upgraded, takes over the cluster, loses each of its parts once, and is removed. It keeps the
// promises of TestHandOverAndBack.
func TestAdoption(t *testing.T) {
	w := newWalk(t)
	before, err := w.kubectl("", "kustomize", filepath.Join(*previous, "k8s", "overlays", "second-scheduler"))
	w.must(err)
	w.berth = *previousBerth
	w.installObjects(w.decode(before))
	w.certificates("--peers-accept-services-authority")
	w.startStores()
	w.alongside()
	w.upgrade()
	w.handOver()
	w.loseEach()
	w.back()
}

// upgrade replaces services and stores of the version before by this one's. Where the streams get another account, NATS
// begins with empty volumes, and the services are restarted.
func (w *walk) upgrade() {
	w.Helper()
	apart := w.streamsApart()
	w.berth, w.shipped = programs.Berth, w.objects("overlays/canary")
	w.secureLedger()
	w.writeConfig(w.shipped)
	w.replace()
	w.step("the services are upgraded")
	stores := []string{"etcd", "nats"}
	if w.streamsApart() != apart {
		stores, w.patience = stores[:1], rebuiltWithin
		w.stores.lost("nats")
		w.stores.startAll("nats")
		w.replace()
		w.step("nats is upgraded")
	}
	for _, store := range stores {
		for n := storeMembers - 1; n >= 0; n-- {
			w.stores.running[fmt.Sprintf("%s-%d", store, n)].Kill()
			w.stores.startMember(store, n)
			w.stores.ready(store, n)
			w.step(fmt.Sprintf("%s-%d is upgraded", store, n))
		}
	}
}
