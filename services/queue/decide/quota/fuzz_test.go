package quota

import "testing"

// FuzzParse checks that any annotation is either a budget without negative limits, or an error.
func FuzzParse(f *testing.F) {
	f.Add("requests.cpu=10, requests.memory=1Gi, pods=5")
	f.Add("pods=1e30")
	f.Fuzz(func(t *testing.T, text string) {
		budget, err := Parse(text)
		if err != nil {
			return
		}
		for _, limit := range []int64{budget.MilliCPU, budget.Memory, budget.Pods} {
			if limit < unlimited.Pods {
				t.Errorf("%q: %+v", text, budget)
			}
		}
	})
}
