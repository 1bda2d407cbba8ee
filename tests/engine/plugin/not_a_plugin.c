/* SPDX-License-Identifier: Apache-2.0
 * A shared library that loads well and is no plugin. */
int not_a_plugin(void);
int not_a_plugin(void) { return 1; }
