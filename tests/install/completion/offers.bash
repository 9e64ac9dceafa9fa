# SPDX-License-Identifier: Apache-2.0
# offers.bash SCRIPT LINE: what bash offers at the end of LINE.
# shellcheck shell=bash disable=SC1090
source "$1" || exit
read -ra COMP_WORDS <<<"$2"
[[ $2 != *' ' ]] || COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
COMP_LINE=$2
COMP_POINT=${#2}
compopt() { :; } # bash has it only while it completes
_koda_sandbox koda-sandbox "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
