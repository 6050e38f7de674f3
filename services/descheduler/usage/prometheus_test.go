package usage

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

var now = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// policyOf names a server and, for each query, a profile that uses it.
func policyOf(t *testing.T, url, auth string, queries ...string) *policy.Policy {
	t.Helper()
	var profiles []string
	for i, q := range queries {
		profiles = append(profiles, fmt.Sprintf(`{name: p%d, pluginConfig: [{name: DefaultEvictor},
{name: LowNodeUtilization, args: {thresholds: {MetricResource: 20}, targetThresholds: {MetricResource: 50},
metricsUtilization: {source: Prometheus, prometheus: {query: %q}}}}],
plugins: {balance: {enabled: [LowNodeUtilization]}}}`, i, q))
	}
	p, err := policy.ParseStrict("test", fmt.Appendf(nil, `{apiVersion: descheduler/v1alpha2, kind: DeschedulerPolicy,
metricsProviders: [{source: Prometheus, prometheus: {url: %q%s}}], profiles: [%s]}`,
		url, auth, strings.Join(profiles, ", ")))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// server answers instant queries like Prometheus' HTTP API (api/v1/query), and records them.
func server(t *testing.T, answers map[string]string) (url string, asked *[]string) {
	t.Helper()
	asked = &[]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/query" {
			http.NotFound(w, r)
			return
		}
		query := r.FormValue("query")
		*asked = append(*asked, query+" at "+r.FormValue("time")+" by "+r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[query]
		if !ok {
			w.WriteHeader(http.StatusBadRequest)
			answer = `{"status":"error","errorType":"bad_data","error":"parse error"}`
		}
		if _, err := w.Write([]byte(answer)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

func vector(samples string) string {
	return `{"status":"success","data":{"resultType":"vector","result":[` + samples + `]}}`
}

// TestQueries: each query is sent once, for the time of the cycle, with the token; a failing query does not affect
// the others.
func TestQueries(t *testing.T) {
	url, asked := server(t, map[string]string{
		"load": vector(`{"metric":{"instance":"a"},"value":[1,"0.25"]},{"metric":{"instance":"b"},"value":[1,"0.9"]}`),
		"bare": vector(`{"metric":{"node":"a"},"value":[1,"0.25"]}`),
		"twice": vector(`{"metric":{"instance":"a","job":"x"},"value":[1,"0.25"]},
{"metric":{"instance":"a","job":"y"},"value":[1,"0.9"]}`),
		"one": `{"status":"success","data":{"resultType":"scalar","result":[1,"0.5"]}}`,
	})
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	auth := ", authToken: {secretReference: {namespace: monitoring, name: prometheus}}"
	p := policyOf(t, url, auth, "load", "bare", "load", "one", "twice", "wrong")
	got := Read(t.Context(), Config{TokenFile: token}, p, now)
	want := map[string]map[string]float64{"load": {"a": 0.25, "b": 0.9}}
	if diff := cmp.Diff(want, got.Queries); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for query, part := range map[string]string{
		"bare": `no label "instance"`, "one": "want an instant vector", "wrong": "parse error",
		"twice": `more than one sample for "a"`,
	} {
		if err := got.Failed[query]; err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, want %q in it", query, err, part)
		}
	}
	if len(got.Failed) != 4 || len(*asked) < 4 || (*asked)[0] != "load at 1772366400 by Bearer secret" {
		t.Errorf("failed %v, asked %q", got.Failed, *asked)
	}
}

// TestWhatIsMissing: the error is reported for each query, and no request is sent.
func TestWhatIsMissing(t *testing.T) {
	url, asked := server(t, nil)
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	auth := ", authToken: {secretReference: {namespace: monitoring, name: prometheus}}"
	for _, tt := range []struct {
		name, auth string
		cfg        Config
		want       string
	}{
		{"no file for the secret", auth, Config{}, "secret monitoring/prometheus"},
		{"no such file", auth, Config{TokenFile: empty + "-not"}, "no such file"},
		{"empty token", "", Config{TokenFile: empty}, "empty: want a token"},
		{"no certificates", "", Config{CAFile: empty}, "no certificate found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Read(t.Context(), tt.cfg, policyOf(t, url, tt.auth, "load"), now)
			if err := got.Failed["load"]; err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q in it", err, tt.want)
			}
		})
	}
	if len(*asked) > 0 {
		t.Errorf("asked %q", *asked)
	}
	got := Read(t.Context(), Config{TokenFile: empty + "-not"}, &policy.Policy{}, now)
	if len(got.Failed) > 0 {
		t.Errorf("a policy without queries fails: %v", got.Failed)
	}
}

// TestAnswersAreBounded: a server that sends without end is cut off.
func TestAnswersAreBounded(t *testing.T) {
	const longest = 1 << 20
	url, _ := server(t, map[string]string{"q": vector("") + strings.Repeat(" ", longest)})
	got := Read(t.Context(), Config{longest: longest}, policyOf(t, url, "", "q"), now)
	if err := got.Failed["q"]; err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("got %v, want an error about the length of the answer", err)
	}
}
