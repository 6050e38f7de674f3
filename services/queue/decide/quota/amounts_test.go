package quota

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Amounts{
		"requests.cpu=1500m, requests.memory=1Gi,pods=3": {1500, 1 << 30, 3},
		"pods=0":         {-1, -1, 0},
		"requests.cpu=2": {2000, -1, -1},
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                              `" is "", want a quantity`,
		"requests.cpu":                  `requests.cpu is ""`,
		"pods=-1":                       `pods is "-1"`,
		"cpu=1":                         `"cpu" is unknown, want requests.cpu`,
		"pods=1,pods=2":                 "pods stands twice",
		"requests.memory=1Gi;pods=lots": `requests.memory is "1Gi;pods=lots"`,
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(want, `"`)) {
			t.Errorf("%q: error %v, want %q in it", text, err, want)
		}
	}
}
