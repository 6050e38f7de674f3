package extender_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/state"
)

// victimServer is an extender over HTTP that is asked about victims. It answers every path with a text, with status 500
// where it has none, and records the questions.
type victimServer struct {
	*httptest.Server
	mu struct {
		sync.Mutex
		calls []string
	}
}

func newVictimServer(t *testing.T, answers map[string]string) *victimServer {
	t.Helper()
	j := &victimServer{}
	j.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		verb := strings.TrimPrefix(r.URL.Path, "/")
		asked, err := askedAbout(r)
		if err != nil {
			t.Errorf("%s: %v", verb, err)
		}
		j.mu.Lock()
		j.mu.calls = append(j.mu.calls, verb+" "+asked)
		j.mu.Unlock()
		answer, ok := answers[verb]
		if !ok {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(j.Close)
	return j
}

func (j *victimServer) calls() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.calls
}

// askedAbout returns a question about victims or nodes in short form: meta or whole, then node=victims/violations.
func askedAbout(r *http.Request) (string, error) {
	var both struct {
		extenderv1.ExtenderPreemptionArgs
		NodeNames *[]string
	}
	if err := json.NewDecoder(r.Body).Decode(&both); err != nil {
		return "", err
	}
	if both.Pod.Name != "p" {
		return "", fmt.Errorf("asked about pod %q, want p", both.Pod.Name)
	}
	if both.NodeNames != nil {
		return "nodes " + strings.Join(*both.NodeNames, " "), nil
	}
	list := []string{}
	for _, node := range []string{"a", "b", "c"} {
		if m := both.NodeNameToMetaVictims[node]; m != nil {
			var uids []string
			for _, p := range m.Pods {
				uids = append(uids, p.UID)
			}
			list = append(list, fmt.Sprintf("meta %s=%s/%d", node, strings.Join(uids, "+"), m.NumPDBViolations))
		}
		if v := both.NodeNameToVictims[node]; v != nil {
			var uids []string
			for _, p := range v.Pods {
				uids = append(uids, string(p.UID)+"@"+p.Spec.NodeName)
			}
			list = append(list, fmt.Sprintf("whole %s=%s/%d", node, strings.Join(uids, "+"), v.NumPDBViolations))
		}
	}
	return strings.Join(list, " "), nil
}

func runningPod(uid, node string) *state.Pod {
	return state.NewPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: types.UID(uid)}, Spec: corev1.PodSpec{NodeName: node},
	})
}

// candidate returns a node with pods name1, name2 and name3, of which the first two are the victims. The second is
// not bound yet.
func candidate(name string) preempt.Candidate {
	c := preempt.Candidate{Node: node(name), Violations: 1}
	c.Pods = []*state.Pod{runningPod(name+"1", name), runningPod(name+"2", ""), runningPod(name+"3", name)}
	c.Victims = c.Pods[:2]
	return c
}

// candidateNames returns the candidates in short form.
func candidateNames(list []preempt.Candidate) []string {
	out := []string{}
	for _, c := range list {
		text := c.Node.Name + "="
		for _, v := range c.Victims {
			text += v.UID + " "
		}
		if text += fmt.Sprint(c.Violations); c.Doubted {
			text += " doubted"
		}
		out = append(out, text)
	}
	return out
}

// TestPreempt checks that extenders are asked one after the other, each about the remaining candidates, and that
// the failure of an ignorable one has no effect. Extenders that filter and are not asked about victims give their
// opinion of the nodes.
func TestPreempt(t *testing.T) {
	j := newVictimServer(t, map[string]string{
		"first": `{"NodeNameToMetaVictims": {"b": {"Pods": [{"UID": "b3"}, {"UID": "b1"}, {"UID": "b3"}]},
			"c": {"Pods": [{"UID": "c2"}], "NumPDBViolations": 4}, "a": {"Pods": [{"UID": "a1"}]}}}`,
		"second": `{"NodeNameToMetaVictims": {"c": {"Pods": [{"UID": "c2"}], "NumPDBViolations": 2},
			"b": {"Pods": [{"UID": "b1"}]}, "a": {"Pods": [{"UID": "a1"}]}}}`,
		"filter": `{"NodeNames": ["a"], "FailedNodes": {"c": "busy"}, "FailedAndUnresolvableNodes": {"b": "never"}}`,
	})
	others := []configv1.ExtenderManagedResource{{Name: "example.com/other"}}
	set := newSet(t,
		configv1.Extender{URLPrefix: j.URL, PreemptVerb: "broken", Ignorable: true},
		configv1.Extender{URLPrefix: j.URL, FilterVerb: "filter", NodeCacheCapable: true},
		configv1.Extender{URLPrefix: j.URL, PreemptVerb: "first", FilterVerb: "unasked", NodeCacheCapable: true},
		configv1.Extender{URLPrefix: j.URL, PreemptVerb: "unasked", ManagedResources: others},
		configv1.Extender{URLPrefix: j.URL, PreemptVerb: "second"},
		configv1.Extender{URLPrefix: j.URL, FilterVerb: "dead", NodeCacheCapable: true, Ignorable: true},
	)
	question := []preempt.Candidate{candidate("a"), candidate("b"), candidate("c")}
	got, err := set.Preempt(t.Context(), pod(""), question)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a=a1 0", "c=c2 2 doubted"}, candidateNames(got)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	want := []string{
		"first meta a=a1+a2/1 meta b=b1+b2/1 meta c=c1+c2/1",
		"second whole a=a1@a/0 whole b=b3@b+b1@b/0 whole c=c2@c/4",
		"broken whole a=a1@a/0 whole b=b1@b/0 whole c=c2@c/2",
		"filter nodes a b c", "dead nodes a c",
	}
	if diff := cmp.Diff(want, j.calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a=a1 a2 1", "b=b1 b2 1", "c=c1 c2 1"}, candidateNames(question)); diff != "" {
		t.Errorf("the question has changed (-before +after):\n%s", diff)
	}
}

// TestPreemptLeavesNone checks that an empty answer leaves no candidate, and that no further extender is asked.
func TestPreemptLeavesNone(t *testing.T) {
	j := newVictimServer(t, map[string]string{"none": `{"NodeNameToMetaVictims": {}}`})
	set := newSet(t, configv1.Extender{URLPrefix: j.URL, PreemptVerb: "none"},
		configv1.Extender{URLPrefix: j.URL, PreemptVerb: "next"}, configv1.Extender{URLPrefix: j.URL, FilterVerb: "filter"})
	got, err := set.Preempt(t.Context(), pod(""), []preempt.Candidate{candidate("a")})
	if err != nil || len(got) != 0 {
		t.Fatalf("%v left, %v", candidateNames(got), err)
	}
	if calls := j.calls(); len(calls) != 1 {
		t.Errorf("calls %q, want the first alone", calls)
	}
}

// TestPreemptFails checks that the answers that upstream treats as errors are errors here, and are ignored from an
// ignorable extender.
func TestPreemptFails(t *testing.T) {
	all := []string{"a=a1 a2 1", "b=b1 b2 1"}
	for name, c := range map[string]struct {
		answer, err string
		ignored     []string
	}{
		"status":  {err: "code 500", ignored: all},
		"no JSON": {answer: "yes", err: "invalid character", ignored: all},
		"stranger": {
			answer: `{"NodeNameToMetaVictims": {"x": {"Pods": [{"UID": "x1"}]}}}`, err: `node "x"`, ignored: all,
		},
		"other's pod": {
			answer: `{"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "b1"}]}}}`, err: "does not have that pod", ignored: all,
		},
		"null pod": {
			answer: `{"NodeNameToMetaVictims": {"a": {"Pods": [null]}}}`, err: "does not have that pod", ignored: all,
		},
		"nobody": {
			answer: `{"NodeNameToMetaVictims": {"a": {"Pods": []}, "b": {"Pods": [{"UID": "b3"}]}}}`,
			err:    `expected at least one victim pod on node "a"`, ignored: []string{"b=b3 0"},
		},
		"null": {
			answer: `{"NodeNameToMetaVictims": {"b": null}}`,
			err:    `expected at least one victim pod on node "b"`, ignored: []string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[string]string{"preempt": c.answer}
			if c.answer == "" {
				delete(answers, "preempt")
			}
			j := newVictimServer(t, answers)
			ask := func(ignorable bool) ([]preempt.Candidate, error) {
				set := newSet(t, configv1.Extender{URLPrefix: j.URL, PreemptVerb: "preempt", Ignorable: ignorable})
				return set.Preempt(t.Context(), pod(""), []preempt.Candidate{candidate("a"), candidate("b")})
			}
			if got, err := ask(false); err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("left %v, error %v, want one with %q", candidateNames(got), err, c.err)
			}
			got, err := ask(true)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.ignored, candidateNames(got)); diff != "" {
				t.Errorf("left by one that is ignorable (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPreemptNeedsTheFilter checks that no pod is evicted when a filter fails, because it gives no opinion of
// nodes.
func TestPreemptNeedsTheFilter(t *testing.T) {
	j := newVictimServer(t, nil)
	set := newSet(t, configv1.Extender{URLPrefix: j.URL, FilterVerb: "filter", NodeCacheCapable: true})
	if got, err := set.Preempt(t.Context(), pod(""), []preempt.Candidate{candidate("a")}); err == nil {
		t.Errorf("left %v, want an error", candidateNames(got))
	}
}
