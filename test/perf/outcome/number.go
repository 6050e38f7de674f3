package outcome

import (
	"math"
	"strconv"
	"strings"
)

// Number writes a number with three significant digits and with commas between thousands.
func Number(x float64) string {
	if x == 0 {
		return "0"
	}
	digits := max(0, 2-int(math.Floor(math.Log10(math.Abs(x)))))
	text := strconv.FormatFloat(x, 'f', digits, 64)
	whole, fraction, dotted := strings.Cut(text, ".")
	if fraction = strings.TrimRight(fraction, "0"); dotted && fraction != "" {
		fraction = "." + fraction
	}
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	const group = 3
	for i := len(whole) - group; i > 0; i -= group {
		whole = whole[:i] + "," + whole[i:]
	}
	return sign + whole + fraction
}
