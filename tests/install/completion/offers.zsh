# SPDX-License-Identifier: Apache-2.0
# offers.zsh SCRIPT LINE: what zsh offers at the end of LINE. An interactive zsh on a pseudo-terminal
# completes the line, with a compadd that also writes down the matches.
zmodload zsh/zpty
work=$(mktemp -d)
cat >$work/setup <<END
unsetopt beep
LISTMAX=10000 # or it asks before it lists many
autoload -Uz compinit && compinit -D -u
source ${(q)1}
compadd() {
	if [[ \${@[1,(i)(-|--)]} != *-(O|A|D)\\ * ]]; then
		typeset -a hits
		builtin compadd -A hits "\$@"
		print -rl -- \$hits >>$work/offers
	fi
	builtin compadd "\$@"
}
leave() { exit }
comppostfuncs=(leave)
bindkey '^I' list-choices
print completion is set up
END
zpty z zsh -f -i
zpty -w z "source $work/setup"
while zpty -r z line; do
	[[ $line == *'completion is set up'* ]] && break
done
zpty -w -n z "$2"$'\t'
while zpty -r z line 2>/dev/null; do :; done
zpty -d z
cat $work/offers
rm -rf $work
