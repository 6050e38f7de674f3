package rules

import (
	"fmt"
	"regexp"
	"strings"
)

const (
	chartFile     = "deploy/helm/berth/Chart.yaml"
	changelogFile = "CHANGELOG.md"
	manifestsDir  = "deploy/k8s/"
)

var (
	chartVersion   = regexp.MustCompile(`^version: (\S+)$`)
	appVersion     = regexp.MustCompile(`^appVersion: "?([^"\s]+)"?$`)
	shippedImage   = regexp.MustCompile(`image: ghcr\.io/berth-scheduler/berth:(\S+)$`)
	changelogEntry = regexp.MustCompile(`^## ([0-9]+\.[0-9]+\.[0-9]+\S*)`)
)

func releaseRules() []Rule {
	return []Rule{{
		Name: "release",
		Why: "program, image and chart have one version: set version and appVersion in Chart.yaml, run " +
			"`make deploy-generate`, and begin CHANGELOG.md with that version (docs/releases.md)",
		Check: checkRelease,
	}}
}

// checkRelease compares every place that names the version with the chart's.
func checkRelease(repo *Repo) (found []Finding) {
	files := map[string]*TextFile{}
	for _, file := range repo.Text {
		files[file.Path] = file
	}
	chart := files[chartFile]
	if chart == nil {
		return nil
	}
	want, _ := chart.first(chartVersion)
	disagree := func(path string, line int, what, version string) {
		if version != want {
			found = append(found, Finding{
				Path: path, Line: line, Detail: fmt.Sprintf("%s is %q, the chart's version is %q", what, version, want),
			})
		}
	}
	version, line := chart.first(appVersion)
	disagree(chartFile, line, "appVersion", version)
	changelog := files[changelogFile]
	if changelog == nil {
		changelog = &TextFile{Path: changelogFile}
	}
	version, line = changelog.first(changelogEntry)
	disagree(changelogFile, line, "the newest version", version)
	for _, file := range repo.Text {
		if !strings.HasPrefix(file.Path, manifestsDir) {
			continue
		}
		for i, text := range file.Lines {
			if image := shippedImage.FindStringSubmatch(text); image != nil {
				disagree(file.Path, i+1, "the image's tag", image[1])
			}
		}
	}
	return found
}

// first is the first group of the first line that matches, and that line's number; empty and 1 if none does.
func (f *TextFile) first(pattern *regexp.Regexp) (string, int) {
	for i, text := range f.Lines {
		if found := pattern.FindStringSubmatch(text); found != nil {
			return found[1], i + 1
		}
	}
	return "", 1
}
