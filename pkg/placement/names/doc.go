// Package names holds the names of the rules, which are those of upstream's plugins: in configuration files, in
// diagnoses and in metrics. It is a package of its own so that packages of rules, the configuration and the
// engine can name a rule without importing it.
package names
