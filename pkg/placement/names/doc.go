// Package names holds the names of the rules, which are those of upstream's plugins: in configuration files, in
// diagnoses and in metrics.
package names
