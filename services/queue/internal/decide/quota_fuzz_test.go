package decide

import "testing"

// FuzzParseQuota checks that any annotation is either a budget without negative limits, or an error.
func FuzzParseQuota(f *testing.F) {
	f.Add("requests.cpu=10, requests.memory=1Gi, pods=5")
	f.Add("pods=1e30")
	f.Fuzz(func(t *testing.T, text string) {
		budget, err := parseQuota(text)
		if err != nil {
			return
		}
		for _, limit := range []int64{budget.milliCPU, budget.memory, budget.pods} {
			if limit < unlimited.pods {
				t.Errorf("%q: %+v", text, budget)
			}
		}
	})
}
