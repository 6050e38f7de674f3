package neighbours

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// tale is a history with shorthands. Every change is one version later, and one second.
type tale struct {
	*testing.T
	h   *history
	at  int
	now time.Time
}

func newTale(t *testing.T) *tale { return &tale{T: t, h: newHistory(), now: time.Unix(0, 0)} }

func (s *tale) next() string {
	s.at++
	s.now = s.now.Add(time.Second)
	return fmt.Sprint(s.at)
}

func (s *tale) node(name string, gone bool) {
	s.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), ResourceVersion: s.next(), Labels: map[string]string{poolLabel: elastic},
	}}
	if err := s.h.node(n, gone); err != nil {
		s.Fatal(err)
	}
}

func (s *tale) pod(name, node string, change ...func(*corev1.Pod)) {
	s.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), ResourceVersion: s.next(), Labels: map[string]string{"app": "a"},
		},
		Spec: corev1.PodSpec{NodeName: node, Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "of-" + name},
		}}}},
	}
	for _, c := range change {
		c(p)
	}
	if err := s.h.pod(p, false, s.now); err != nil {
		s.Fatal(err)
	}
}

func (s *tale) claim(pod, node, volume string) {
	s.Helper()
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: "of-" + pod, UID: types.UID(pod), ResourceVersion: s.next(),
			Annotations: map[string]string{selectedNode: node},
		},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume},
	}
	if err := s.h.claim(c); err != nil {
		s.Fatal(err)
	}
}

func leaving(p *corev1.Pod)  { p.DeletionTimestamp = &metav1.Time{} }
func finished(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }

func nominatedTo(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.NominatedNodeName = node }
}

func TestWhatIsWrongWithARemoval(t *testing.T) {
	for name, test := range map[string]struct {
		play func(*tale)
		want string
	}{
		"empty":    {func(s *tale) { s.node("n", true) }, ""},
		"evicted":  {func(s *tale) { s.pod("p", "n"); s.pod("p", "n", leaving); s.node("n", true) }, ""},
		"finished": {func(s *tale) { s.pod("p", "n"); s.pod("p", "n", finished); s.node("n", true) }, ""},
		"running": {func(s *tale) { s.pod("p", "n"); s.node("n", true); s.pod("p", "n", leaving) },
			"node n was removed under pod p, which was not evicted"},
		"bound too late": {func(s *tale) { s.pod("p", ""); s.node("n", true); s.pod("p", "n") }, ""},
		"nominated": {func(s *tale) { s.pod("p", ""); s.pod("p", "", nominatedTo("n")); s.node("n", true) },
			"node n was removed while pod p was nominated to it"},
		"no longer nominated": {func(s *tale) {
			s.pod("p", "", nominatedTo("n"))
			s.pod("p", "")
			s.node("n", true)
		}, ""},
		"nominated elsewhere by then": {func(s *tale) {
			s.pod("p", "", nominatedTo("n"))
			s.pod("p", "", nominatedTo("m"))
			s.node("n", true)
		}, ""},
		"nominated, and elsewhere later": {func(s *tale) {
			s.pod("p", "", nominatedTo("n"))
			s.node("n", true)
			s.pod("p", "", nominatedTo("m"))
		}, "node n was removed while pod p was nominated to it"},
		"nominated too late": {func(s *tale) { s.pod("p", ""); s.node("n", true); s.pod("p", "", nominatedTo("n")) }, ""},
		"selected for a volume": {func(s *tale) { s.pod("p", ""); s.claim("p", "n", ""); s.node("n", true) },
			"node n was removed while a volume was made there for pod p"},
		"the volume is there": {func(s *tale) {
			s.pod("p", "")
			s.claim("p", "n", "")
			s.claim("p", "n", "v")
			s.node("n", true)
		}, ""},
		"selected, the pod is leaving": {func(s *tale) {
			s.pod("p", "")
			s.claim("p", "n", "")
			s.pod("p", "", leaving)
			s.node("n", true)
		}, ""},
		"selected elsewhere by then": {func(s *tale) {
			s.pod("p", "")
			s.claim("p", "n", "")
			s.claim("p", "m", "")
			s.node("n", true)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTale(t)
			s.node("n", false)
			s.node("m", false)
			test.play(s)
			got := strings.Join(append(s.h.lost(), s.h.stranded()...), "; ")
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestNodesAreCounted(t *testing.T) {
	s := newTale(t)
	for _, name := range []string{"a", "b", "c"} {
		s.node(name, false)
	}
	s.node("b", true)
	s.node("d", false)
	if s.h.most != 3 || s.h.present() != 3 || s.h.removed() != 1 {
		t.Errorf("most %d, present %d, removed %d; want 3, 3, 1", s.h.most, s.h.present(), s.h.removed())
	}
}

// A pod that is never bound waits until it is gone, or until now.
func TestWaitsAreSorted(t *testing.T) {
	s := newTale(t)
	s.pod("bound", "")  // at 1 s
	s.pod("never", "")  // at 2 s
	s.pod("gone", "")   // at 3 s
	s.pod("bound", "n") // at 4 s
	gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "gone", UID: "gone", ResourceVersion: s.next()}}
	if err := s.h.pod(gone, true, s.now); err != nil { // at 5 s
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float64{8, 3, 2}, s.h.waits("a", time.Unix(10, 0))); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
}
