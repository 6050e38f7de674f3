package intake

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2/ktesting"
)

// TestReleases checks which versions are refused, which features are logged as off by default, and which versions are
// later than the rules. Nothing is logged for an unknown version.
func TestReleases(t *testing.T) {
	for _, test := range []struct {
		info           apiversion.Info
		refused, later bool
		off            int
	}{
		{info: apiversion.Info{Major: "1", Minor: "20"}, refused: true, off: 6},
		{info: apiversion.Info{Major: "1", Minor: "33+"}, refused: true, off: 6},
		{info: apiversion.Info{Major: "1", Minor: "34"}, off: 6},
		{info: apiversion.Info{Major: "1", Minor: "35+"}, off: 6},
		{info: apiversion.Info{Major: "1", Minor: "36"}},
		{info: apiversion.Info{Major: "1", Minor: "36", EmulationMajor: "1", EmulationMinor: "35"}, off: 6},
		{info: apiversion.Info{Major: "1", Minor: "36", EmulationMajor: "1", EmulationMinor: "33"}, refused: true, off: 6},
		{info: apiversion.Info{Major: "1", Minor: "37"}, later: true},
		{info: apiversion.Info{Major: "1", Minor: "40+"}, later: true},
		{info: apiversion.Info{Major: "2", Minor: "0"}},
		{info: apiversion.Info{}},
	} {
		r := releaseOf(&test.info)
		off := offByDefault(r.minor)
		refused, later := r.check() != nil, r.Later() != ""
		if refused != test.refused || later != test.later || len(off) != test.off {
			t.Errorf("%s.%s: refused %t, later %t, off %v; want %t, %t and %d features",
				test.info.Major, test.info.Minor, refused, later, off, test.refused, test.later, test.off)
		}
		if test.off > 0 && !slices.Contains(off, "DRADeviceTaints") {
			t.Errorf("%s.%s: off are %v, want DRADeviceTaints among them", test.info.Major, test.info.Minor, off)
		}
	}
}

// versioned is an API server with namespace kube-system, whose version may change.
type versioned struct{ minor atomic.Pointer[string] }

func (v *versioned) is(minor string) { v.minor.Store(&minor) }

// ServeHTTP implements http.Handler.
func (v *versioned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	var answer any = &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "cluster-1"},
	}
	if r.URL.Path == "/version" {
		minor := *v.minor.Load()
		answer = &apiversion.Info{Major: "1", Minor: minor, GitVersion: "v1." + minor + ".7"}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (v *versioned) connect(t *testing.T) *Cluster {
	t.Helper()
	server := httptest.NewServer(v)
	t.Cleanup(server.Close)
	cluster, err := Connect(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// TestOldServerIsRefused checks that the error names the server, its version and what is accepted.
func TestOldServerIsRefused(t *testing.T) {
	v := &versioned{}
	cluster := v.connect(t)
	v.is("33")
	_, err := cluster.Identify(t.Context(), time.Minute)
	if want := "queue: the API server at " + cluster.host + " has version v1.33.7, want v1.34 or later"; err == nil ||
		err.Error() != want {
		t.Errorf("the error is %v, want %q", err, want)
	}
	v.is("34")
	uid, err := cluster.Identify(t.Context(), time.Minute)
	if err != nil || uid != "cluster-1" {
		t.Errorf("the cluster is %q, %v, want cluster-1", uid, err)
	}
	if got := cluster.Release().Version; got != "v1.34.7" {
		t.Errorf("the version is %q, want v1.34.7", got)
	}
}

// TestVersionIsLogged checks that the version is logged at the start of a round, and when it has changed in between.
func TestVersionIsLogged(t *testing.T) {
	v := &versioned{}
	cluster := v.connect(t)
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	sink, ok := logger.GetSink().(ktesting.Underlier)
	if !ok {
		t.Fatalf("the sink is a %T", logger.GetSink())
	}
	read := 0
	wantLog := func(what string, want ...string) {
		t.Helper()
		all := sink.GetBuffer().String()
		logged := all[read:]
		read = len(all)
		if len(want) == 0 && logged != "" {
			t.Errorf("%s: it says %q, want nothing", what, logged)
		}
		for _, part := range want {
			if !strings.Contains(logged, part) {
				t.Errorf("%s: it says %q, want %q in it", what, logged, part)
			}
		}
	}
	v.is("35")
	if err := cluster.awaitRelease(t.Context(), logger); err != nil {
		t.Fatal(err)
	}
	wantLog("1.35", "older than the rules", "v1.35.7", "DRAExtendedResource")
	cluster.refreshRelease(t.Context(), logger)
	wantLog("the same")
	v.is("36")
	cluster.refreshRelease(t.Context(), logger)
	wantLog("1.36", "version changed", "v1.36.7", "v1.35.7")
	v.is("37")
	cluster.refreshRelease(t.Context(), logger)
	wantLog("1.37", "newer than the rules", "v1.37.7", "1.36")
}
