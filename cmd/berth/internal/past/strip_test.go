package past_test

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/cmd/berth/internal/past"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/placement/config"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"github.com/berth-scheduler/berth/pkg/state/strip"
	"github.com/berth-scheduler/berth/services/scheduler/rerun"
)

// canary is a value that no bundle may contain.
const canary = "canary-4711"

// podWithSecrets returns a pod with the canary wherever a container can have it.
func podWithSecrets(name string) *corev1.Pod {
	env := []corev1.EnvVar{{Name: "PASSWORD", Value: canary}}
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{canary}}}}
	pod := statetest.Pod("shop", name, "cpu", "1")
	pod.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"env":"` + canary + `"}`}
	pod.Spec.Containers[0].Env, pod.Spec.Containers[0].LivenessProbe = env, probe
	pod.Spec.InitContainers = []corev1.Container{{
		Name: "init", Env: env, Command: []string{"sh", "-c", canary}, Args: []string{"--password=" + canary},
	}}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Env: env, Command: []string{canary}},
	}}
	return pod
}

// set returns a workload with the canary in its template.
func set() *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "set", UID: "uid-set"},
		Spec:       appsv1.StatefulSetSpec{Template: corev1.PodTemplateSpec{Spec: podWithSecrets("template").Spec}},
	}
}

// strippedHistory is a history of objects, stripped as the queue strips them.
func strippedHistory(strip func(metav1.Object)) *statetest.History {
	h := &statetest.History{Epoch: 1}
	for kind, obj := range map[events.Kind]state.APIObject{
		events.KindPod: podWithSecrets("web-0"), events.KindNode: statetest.Node("n0", "cpu", "4"),
		events.KindStatefulSet: set(),
	} {
		strip(obj)
		h.Upsert(kind, obj)
	}
	return h
}

// keep appends the facts to a log, with a snapshot of them.
func keep(t *testing.T, log *memlog.Log, facts []events.SequencedFact) {
	t.Helper()
	store := state.New()
	if _, err := store.Apply(facts); err != nil {
		t.Fatal(err)
	}
	for _, f := range facts {
		m := []eventlog.Message{events.EncodeFact(f.Fact)}
		if _, err := log.Append(t.Context(), eventlog.Facts, eventlog.AnySequence, m); err != nil {
			t.Fatal(err)
		}
	}
	data, at, err := store.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Put(t.Context(), eventlog.Facts, at, data); err != nil {
		t.Fatal(err)
	}
}

// Where extenders or custom plugins are shown objects, the log has whole pods. A bundle has them stripped as usual:
// environment, commands and probes are in no record of any kind, and in no snapshot.
func TestBundleHoldsNoEnvironment(t *testing.T) {
	log := memlog.New(memlog.Options{})
	t.Cleanup(log.Close)
	keep(t, log, strippedHistory(strip.KeepSpec).Facts)
	live := past.Live{Log: log}
	_, snapshot, _, err := live.Snapshot(t.Context())
	if err != nil || !bytes.Contains(snapshot, []byte(canary)) {
		t.Fatalf("the log's snapshot has no canary, %v", err)
	}
	_, path := export(t, live, past.Contents{})
	names := 0
	for name, content := range unpacked(t, path) {
		if strings.Contains(string(content), canary) {
			t.Errorf("%s holds the canary", name)
		}
		names += strings.Count(string(content), "web-0")
	}
	if names == 0 {
		t.Error("the bundle does not hold the pod")
	}
}

// unpacked returns the members of a bundle, with the data of records as text.
func unpacked(t *testing.T, path string) map[string][]byte {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // only read
	z, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	members := map[string][]byte{}
	for archive := tar.NewReader(file); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err == nil && strings.HasSuffix(header.Name, ".zst") {
			content, err = z.DecodeAll(content, nil)
		}
		if err != nil {
			t.Fatalf("%s: %v", header.Name, err)
		}
		members[header.Name] = content
	}
	b := open(t, path)
	for stream := range subjects {
		for _, r := range read(t, b, stream, 1) {
			members["records of "+string(stream)] = append(members["records of "+string(stream)], r.Data...)
		}
	}
	return members
}

// A bundle of whole facts leads to the same state as a log of stripped facts, from the facts and from the snapshot;
// berth replay and berth simulate work on that state.
func TestStrippedBundleIsTheSameState(t *testing.T) {
	whole, stripped := memlog.New(memlog.Options{}), memlog.New(memlog.Options{})
	t.Cleanup(whole.Close)
	t.Cleanup(stripped.Close)
	facts := strippedHistory(func(metav1.Object) {}).Facts
	keep(t, whole, facts)
	for i, f := range facts {
		object, err := state.StripFact(f.Fact)
		if err != nil {
			t.Fatal(err)
		}
		facts[i].Object = object
	}
	keep(t, stripped, facts)
	_, path := export(t, past.Live{Log: whole}, past.Contents{})
	for _, at := range []rerun.At{{}, {Sequence: 2}} {
		got, err := rerun.Rebuild(t.Context(), open(t, path), at)
		if err != nil {
			t.Fatal(err)
		}
		want, err := rerun.Rebuild(t.Context(), past.Live{Log: stripped}, at)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(snapshotOf(t, want.Facts), snapshotOf(t, got.Facts)); diff != "" {
			t.Errorf("at %+v (-log of stripped facts +bundle):\n%s", at, diff)
		}
	}
}

func snapshotOf(t *testing.T, s *state.Store) []byte {
	t.Helper()
	data, _, err := s.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A fact that cannot be decoded may contain anything. The bundle has it without its object and reports how many there
// are; a snapshot that cannot be read is not exported at all.
func TestUnreadableFactsAreEmptied(t *testing.T) {
	log := memlog.New(memlog.Options{})
	t.Cleanup(log.Close)
	poison := statetest.PoisonFacts(1)
	withData := 0
	for _, p := range poison {
		if len(p.Message.Data) > 0 {
			withData++
		}
		if _, err := log.Append(t.Context(), eventlog.Facts, eventlog.AnySequence,
			[]eventlog.Message{p.Message}); err != nil {
			t.Fatal(err)
		}
	}
	m, path := export(t, past.Live{Log: log}, past.Contents{})
	records := read(t, open(t, path), eventlog.Facts, 1)
	kept := 0
	for _, r := range records {
		if len(r.Data) > 0 {
			kept++
		}
	}
	if len(records) != len(poison) || m.Unreadable == 0 || m.Unreadable+kept != withData {
		t.Errorf("%d records of %d; %d of %d objects kept, %d said to be left out",
			len(records), len(poison), kept, withData, m.Unreadable)
	}
	if err := log.Put(t.Context(), eventlog.Facts, 1, []byte("snapshot")); err != nil {
		t.Fatal(err)
	}
	_, err := past.Export(t.Context(), io.Discard, past.Live{Log: log}, past.Contents{})
	if err == nil || !strings.Contains(err.Error(), "snapshot of the facts: at sequence 1: ") {
		t.Errorf("a snapshot that is none: %v, want an error that names it", err)
	}
}

// The configuration is exported without credentials, and unchanged if it has none.
func TestBundleHoldsNoCredentials(t *testing.T) {
	const plain = "# ours\napiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" +
		"extenders: # two\n- urlPrefix: https://a\n  weight: 30000000\n  tlsConfig: {certFile: /c, keyFile: /k}\n"
	key := base64.StdEncoding.EncodeToString([]byte("-----BEGIN " + canary))
	secret := plain + "- urlPrefix: https://user:" + canary + "@b/x\n  filterVerb: f\n" +
		"  tlsConfig: {certData: Y2VydA==, keyData: " + key + ", serverName: s}\n"
	policy := "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n" +
		"metricsProviders: [{source: Prometheus, prometheus: {url: 'https://user:" + canary + "@prometheus'}}]\n"
	log := memlog.New(memlog.Options{})
	t.Cleanup(log.Close)
	exported := func(c past.Contents) (config, policy string) {
		t.Helper()
		_, path := export(t, past.Live{Log: log}, c)
		b := open(t, path)
		return string(b.Config), string(b.Policy)
	}
	if got, _ := exported(past.Contents{Config: []byte(plain)}); got != plain {
		t.Errorf("a file without credentials has changed:\n%s", cmp.Diff(plain, got))
	}
	gotConfig, gotPolicy := exported(past.Contents{Config: []byte(secret), Policy: []byte(policy)})
	for name, text := range map[string]string{"configuration": gotConfig, "policy": gotPolicy} {
		if strings.Contains(text, canary) || strings.Contains(text, key) {
			t.Errorf("the %s holds credentials:\n%s", name, text)
		}
	}
	c, err := config.Parse("bundle", []byte(gotConfig))
	if err != nil {
		t.Fatal(err)
	}
	e := c.Profiles[0].Extenders
	if len(e) != 2 || e[0].Weight != 30000000 || e[1].URLPrefix != "https://b/x" || e[1].TLSConfig.ServerName != "s" {
		t.Errorf("extenders %+v", e)
	}
	if !strings.Contains(gotPolicy, "https://prometheus") {
		t.Errorf("policy:\n%s", gotPolicy)
	}
}
