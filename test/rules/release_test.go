package rules_test

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/test/rules"
)

// released is a checkout in which everything names one version.
func released() fstest.MapFS {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	return fstest.MapFS{
		"deploy/helm/berth/Chart.yaml": file("name: berth\nversion: 1.2.3\nappVersion: \"1.2.3\"\n"),
		"CHANGELOG.md":                 file("# Changelog\n\n## Unreleased\n\n## 1.2.3 - 2026-01-01\n\n## 1.2.2\n"),
		"deploy/k8s/base/queue.yaml":   file("spec:\n  image: ghcr.io/berth-scheduler/berth:1.2.3\n"),
	}
}

func TestVersionsOfAReleaseAgree(t *testing.T) {
	for name, test := range map[string]struct {
		path, text string
		want       []string
	}{
		"the same everywhere": {},
		"chart": {"deploy/helm/berth/Chart.yaml", "version: 1.2.3\nappVersion: \"1.2.4\"\n",
			[]string{"deploy/helm/berth/Chart.yaml:2"}},
		"changelog":                   {"CHANGELOG.md", "# Log\n\n## 1.2.2\n", []string{"CHANGELOG.md:3"}},
		"changelog without a version": {"CHANGELOG.md", "# Log\n\n## Unreleased\n", []string{"CHANGELOG.md:1"}},
		"manifest": {"deploy/k8s/base/queue.yaml", "spec:\n  image: ghcr.io/berth-scheduler/berth:1.2.2\n",
			[]string{"deploy/k8s/base/queue.yaml:2"}},
		"image of something else": {"deploy/k8s/base/queue.yaml", "spec:\n  image: example.com/etcd:3.7\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			checkout := released()
			if test.path != "" {
				checkout[test.path] = &fstest.MapFile{Data: []byte(test.text)}
			}
			repo, err := rules.Load(checkout)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range rules.Run(repo, rules.All()).Findings {
				got = append(got, fmt.Sprintf("%s:%d", f.Path, f.Line))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
