// Package config exists so that every figure an operator may turn stands in one typed struct, [Config], whose tags
// carry its name, default and help. The command line embeds it; the application gets it ready made.
//
// A value comes from the strongest source that has one:
//
//	flag --pay-window  >  environment TANDIAN_PAY_WINDOW  >  file (--config) pay-window:  >  default
//
// [Sources] is the kong resolver that reads environment and file and remembers which one won; [Config.Settings]
// lists the outcome with its origin. The package imports nothing of ours.
package config
