package peers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheSchedulersFileIsOnlyCompleted(t *testing.T) {
	for name, test := range map[string]struct{ content, want string }{
		"rates stay": {
			"kind: KubeSchedulerConfiguration\nclientConnection:\n  qps: 7\nprofiles:\n- schedulerName: s\n",
			"clientConnection:\n  kubeconfig: /the/cluster\n  qps: 7\nkind: KubeSchedulerConfiguration\n" +
				"leaderElection:\n  leaderElect: false\nprofiles:\n- schedulerName: s\n",
		},
		"own kubeconfig": {
			"kind: KubeSchedulerConfiguration\nclientConnection: {kubeconfig: mine}\n", "want none, since",
		},
		"other kind":      {"kind: Pod\n", "want KubeSchedulerConfiguration"},
		"not an object":   {"kind: KubeSchedulerConfiguration\nclientConnection: 3\n", "want an object"},
		"repeated fields": {"kind: a\nkind: b\n", "already set"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := completeSchedulerConfig(path, "/the/cluster")
			text := string(got)
			if err != nil {
				text = err.Error()
			}
			if !strings.Contains(text, test.want) {
				t.Errorf("the result is\n%s\nwant\n%s", text, test.want)
			}
		})
	}
}
