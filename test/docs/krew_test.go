package docs_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// krewManifest is a plugin's manifest. Source: pkg/index/types.go of sigs.k8s.io/krew.
type krewManifest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Version          string         `json:"version"`
		ShortDescription string         `json:"shortDescription"`
		Description      string         `json:"description"`
		Caveats          string         `json:"caveats"`
		Homepage         string         `json:"homepage"`
		Platforms        []krewPlatform `json:"platforms"`
	} `json:"spec"`
}

type krewPlatform struct {
	URI      string                `json:"uri"`
	Sha256   string                `json:"sha256"`
	Selector *metav1.LabelSelector `json:"selector"`
	Bin      string                `json:"bin"`
}

// TestKrewManifestIsOneWhenFilled fills the template as docs/releases.md says, and checks what krew checks
// (internal/index/validation/validate.go).
func TestKrewManifestIsOneWhenFilled(t *testing.T) {
	template, err := os.ReadFile("../../deploy/krew/berth.yaml")
	if err != nil {
		t.Fatal(err)
	}
	digest := strings.Repeat("0a", 32)
	filled := os.Expand(string(template), func(name string) string {
		switch {
		case name == "VERSION":
			return "v0.1.0"
		case strings.HasPrefix(name, "SHA256_"):
			return digest
		}
		t.Errorf("a placeholder ${%s}, want VERSION or SHA256_OS_ARCH", name)
		return ""
	})
	var m krewManifest
	if err := yaml.UnmarshalStrict([]byte(filled), &m); err != nil {
		t.Fatal(err)
	}
	if m.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || m.Kind != "Plugin" || m.Name != "berth" {
		t.Errorf("it is a %s %s of the name %s", m.APIVersion, m.Kind, m.Name)
	}
	if m.Spec.Version != "v0.1.0" || m.Spec.ShortDescription == "" || m.Spec.Homepage == "" || len(m.Spec.Platforms) == 0 {
		t.Errorf("version, shortDescription, homepage or platforms are missing: %+v", m.Spec)
	}
	for _, p := range m.Spec.Platforms {
		if p.Selector == nil || len(p.Selector.MatchLabels) != 2 {
			t.Errorf("the selector of %s is %v, want os and arch", p.URI, p.Selector)
			continue
		}
		platform := p.Selector.MatchLabels["os"] + "-" + p.Selector.MatchLabels["arch"]
		if want := "/" + m.Spec.Version + "/berth-" + platform + ".tar.gz"; !strings.HasSuffix(p.URI, want) {
			t.Errorf("uri %s, want one that ends in %s", p.URI, want)
		}
		placeholder := fmt.Sprintf("${SHA256_%s}", strings.ToUpper(strings.ReplaceAll(platform, "-", "_")))
		line := regexp.MustCompile(regexp.QuoteMeta(platform+".tar.gz") + `\n\s*sha256: ` + regexp.QuoteMeta(placeholder))
		if p.Sha256 != digest || p.Bin != "berth" || !line.Match(template) {
			t.Errorf("%s: sha256 %s and bin %s, want %s and berth", platform, p.Sha256, p.Bin, placeholder)
		}
	}
}
